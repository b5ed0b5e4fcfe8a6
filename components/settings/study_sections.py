"""The sections of params.yaml that a study reads: audit (docs/audit.md says how each limit was set), distil, blind, authoring, judge.

They stand here and not in the studies' rooms: those lie a layer higher, and params.yaml is read as a whole.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rlver.components.domain.kinds import Section


class AuditLimits(Section):
    """The highest value of each check that is still clean, by the name of the check."""

    stock_phrases: float = Field(ge=0, le=1)
    stock_phrases_by_need: float = Field(ge=0, le=1)
    identical_replies: float = Field(ge=0, le=1)
    same_acts: float = Field(ge=0, le=1)
    one_act: float = Field(ge=0, le=1)
    copying: float = Field(ge=0, le=1)
    repetition: float = Field(ge=0, le=1)
    growth_in_dialogue: float = Field(gt=1)  # a factor
    length_to_base: float = Field(gt=1)  # a factor
    praise: float = Field(ge=0, le=1)
    praise_only: float = Field(ge=0, le=1)
    agreement: float = Field(ge=0, le=1)
    packed_acts: float = Field(ge=0, le=1)
    keyword_lists: float = Field(ge=0, le=1)
    unreadable: float = Field(ge=0, le=1)
    injection: float = Field(ge=0, le=1)
    early_goodbye: float = Field(ge=0, le=1)
    unconfirmed_gain: float = Field(ge=0, le=100)  # points of emotion less than of an honest supporter's gain
    reward_overoptimization: float = Field(ge=0, le=100)  # the same over the whole training
    growth_in_training: float = Field(gt=1)  # a factor
    repeats_in_training: float = Field(ge=0, le=1)  # a rise of the share
    entropy_in_training: float = Field(gt=1)  # how many times smaller


class AuditParameters(Section):
    run_words: int = Field(ge=2)
    confirmed_share: float = Field(gt=0, le=1)
    log_share: float = Field(gt=0, le=0.5)
    probe_personas: int = Field(ge=2)
    probe_share: float = Field(gt=0, le=1)
    limits: AuditLimits


class DistilParameters(Section):
    """`params.yaml`, section `distil`. Strengths are ridge penalties on n-gram vectors of unit length."""

    bits: int = Field(ge=8, le=20)
    reply_strength: float = Field(gt=0)
    user_strength: float = Field(gt=0)
    reasons: int = Field(ge=0)
    trees: int = Field(ge=1)
    tree_learning_rate: float = Field(gt=0, le=1)
    tree_leaves: int = Field(ge=2)
    leaf_rows: int = Field(ge=1)
    tree_l2: float = Field(ge=0)
    tree_features: float = Field(gt=0, le=1)
    tree_seeds: int = Field(ge=1)
    inner_folds: int = Field(ge=2)
    persona_folds: int = Field(ge=2)
    policy_folds: int = Field(ge=2)
    locked_share: float = Field(gt=0, lt=1)
    rare_grid_share: float = Field(ge=0, lt=0.5)
    odd_share: float = Field(gt=0, lt=0.1)


class BlindSettings(Section):
    pairs: int = Field(ge=1)
    overlap: float = Field(ge=0, le=1)


class AuthoringSettings(Section):
    """`max_repairs` bounds how often one question is asked again. Two texts are alike when of the shorter one's runs of `run_words`
    words more than the share `max_overlap` stand in the other (0..1)."""

    model: str | None
    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    scenario_max_tokens: int = Field(ge=1)
    persona_max_tokens: int = Field(ge=1)
    max_repairs: int = Field(ge=0)
    personas_per_scenario: Literal[1, 2, 4, 8]
    run_words: int = Field(ge=1)
    max_overlap: float = Field(ge=0, le=1)


class JudgeSettings(Section):
    """`max_repairs` bounds how often an unusable answer is asked for again."""

    model: str | None
    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    max_tokens: int = Field(ge=1)
    max_repairs: int = Field(ge=0)
    max_quoted_characters: int = Field(ge=1)  # of each text of the dialogue
