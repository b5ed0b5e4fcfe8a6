"""Dialogue acts as the appraiser recorded them in its evidence, and their groups. Nothing is read anew: a reply without evidence is unknown.

Appraisers that name acts leave evidence (scripted, heard). `rlver appraise` adds it to English dialogues of any origin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from rlver.components.domain.acts import counts, names_need
from rlver.components.domain.transcript import Dialogue

EMOTION = frozenset({"acknowledge", "comfort", "deep_empathy", "invite_telling", "absolve", "praise", "self_disclose"})
SOLUTION = frozenset({"advise", "weigh_sides", "explain_other", "invite_reflection", "ask_fact", "lecture"})
HARMFUL = frozenset({"platitude", "dismiss", "lecture", "blame", "flattery"})
OPENING = frozenset({"invite_telling", "invite_reflection", "ask_fact"})
REASONING = frozenset({"advise", "weigh_sides", "explain_other", "invite_reflection"})
ALL = EMOTION | SOLUTION | HARMFUL

NO_ACTS = "no acts are known: no scripted or hearing user appraised these dialogues (rlver appraise reads English ones)"

_WORD = re.compile(r"[㐀-鿿豈-﫿]|[^\W_㐀-鿿豈-﫿]+(?:['’][^\W_]+)?")
_TELLING_LETTERS = 5  # a shorter word is shared by chance


@dataclass(frozen=True)
class Act:
    """One appraised reply: what it does, what the appraiser found, how it was taken, whether it picks up a word of the user's."""

    acts: frozenset[str]
    found: frozenset[str]  # evidence of the steps target and effect
    change: int
    is_grounded: bool
    is_cued: bool | None  # a cue to the need came before it; None when nobody knows

    @property
    def harms(self) -> bool:
        return bool(self.acts & HARMFUL)

    @property
    def serves(self) -> bool:
        """It does what the hidden need asks for, and is believed."""
        return "serves_need" in self.found and not self.found & {"too_soon", "doubted"}


@lru_cache(maxsize=1 << 17)
def words_of(text: str) -> tuple[str, ...]:
    """Lower-case words; of Chinese every character."""
    return tuple(_WORD.findall(text.lower()))


def acts_of(dialogue: Dialogue) -> list[Act]:
    """The appraised replies in order; empty where no evidence was recorded, or evidence that names no acts."""
    if not names_need(dialogue) or not any(turn.appraisal and turn.appraisal.evidence for turn in dialogue.turns):
        return []
    found: list[Act] = []
    told: set[str] = set()
    is_cued: bool | None = None
    for turn in dialogue.turns:
        told.update(word for word in words_of(turn.user) if len(word) >= _TELLING_LETTERS)
        if turn.cue is not None:
            is_cued = bool(is_cued) or turn.cue
        if turn.appraisal is None:
            continue
        evidence = turn.appraisal.evidence
        found.append(
            Act(
                acts=frozenset(one.what for one in evidence if one.step == "content" and one.what in ALL),
                found=frozenset(one.what for one in evidence if one.step != "content" and counts(one)),
                change=turn.appraisal.change,
                is_grounded=not told.isdisjoint(words_of(turn.assistant)),
                is_cued=is_cued,
            )
        )
    return found


# The five strategies of the RLVER paper (table 4) and the acts that carry them out here. To absolve is to affirm what somebody did; a
# story of one's own counts as empathy there. Surface sympathy, comfort and questions of fact belong to no strategy.
STRATEGIES: dict[str, frozenset[str]] = {
    "praise": frozenset({"praise", "absolve"}),
    "deep empathy": frozenset({"deep_empathy", "self_disclose"}),
    "emotional venting": frozenset({"invite_telling"}),
    "advice": frozenset({"advise"}),
    "problem analysis": frozenset({"weigh_sides", "explain_other", "invite_reflection"}),
}


def frequencies(dialogues: Iterable[Dialogue]) -> dict[str, float]:
    """The share of the replies of `acts_of` with each act, by name of the act; empty without such a reply."""
    replies = [reply.acts for dialogue in dialogues for reply in acts_of(dialogue)]
    return {act: sum(act in acts for acts in replies) / len(replies) for act in sorted(set().union(*replies))}
