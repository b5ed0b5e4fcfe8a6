"""Recorded dialogues as rows to learn from: one row a judged reply, with what the appraiser may see apart from what it should say.

What all learning on one set of recordings shares: n-gram vectors, how alike all texts are, and who may not learn from whom.

Who is held out: decided by hashes of names, before anything is learned and for ever after.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.settings.study_sections import DistilParameters
from rlver.components.users.distilled.features import NEEDS, known_from, measures, moments_of
from rlver.components.users.distilled.ngrams import read

NOBODY_KNOWS = -1  # the need of a row whose need is not recorded
NEED_CONSTANT, CONSTANT = 0.1, 0.1  # prior variance of the constants, beside n-gram vectors of unit length

Floats = NDArray[np.float32]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Examples:
    """All arrays have one entry a row; rows of a dialogue stand together, in its order."""

    dialogues: tuple[Dialogue, ...]  # with at least one judged reply
    dialogue: NDArray[np.int64]  # position in `dialogues`
    turn: NDArray[np.int64]  # from 0
    reply: tuple[str, ...]
    user: tuple[str, ...]
    need: NDArray[np.int64]  # position in NEEDS, or NOBODY_KNOWS
    measured: Numbers  # (rows, measures)
    reasons: tuple[str, ...]  # what the user said of the reply: to learn from, never to look at
    change: Numbers
    emotion: Numbers  # before the reply
    last_change: Numbers  # before the reply, 0 at the first

    def rows_of(self, positions: Sequence[int]) -> NDArray[np.int64]:
        return np.flatnonzero(np.isin(self.dialogue, np.asarray(positions, dtype=np.int64)))


def examples(dialogues: Sequence[Dialogue], personas: Mapping[str, Persona]) -> Examples:
    """The rows of all dialogues. Raises ValueError if nothing in them was judged."""
    kept = tuple(dialogue for dialogue in dialogues if dialogue.turns and dialogue.turns[0].appraisal is not None)
    if not kept:
        raise ValueError("no reply in these dialogues was judged, so there is nothing to learn from; `rlver import` keeps the judgements")
    rows: list[tuple[Any, ...]] = []
    for number, dialogue in enumerate(kept):
        judged = [turn for turn in dialogue.turns if turn.appraisal is not None]
        known = known_from(dialogue.hidden_need, dialogue.original, personas.get(dialogue.persona_id))
        before, last = dialogue.emotion_start, 0
        moments = moments_of(known, [turn.user for turn in judged], [turn.assistant for turn in judged])
        for place, (turn, moment) in enumerate(zip(judged, moments, strict=True)):
            assert turn.appraisal is not None and turn.emotion is not None
            reason = f"{turn.appraisal.target}\n{turn.appraisal.feeling}"
            rows.append((number, place, turn.assistant, turn.user, measures(moment), reason, turn.appraisal.change, before, last))
            before, last = turn.emotion, turn.appraisal.change
    dialogue_of, turn_of, reply, user, measured, reasons, change, emotion, last_change = zip(*rows, strict=True)
    need_of = [NEEDS.index(one.hidden_need) if one.hidden_need in NEEDS else NOBODY_KNOWS for one in kept]
    return Examples(
        dialogues=kept,
        dialogue=np.array(dialogue_of, dtype=np.int64),
        turn=np.array(turn_of, dtype=np.int64),
        reply=reply,
        user=user,
        need=np.array([need_of[number] for number in dialogue_of], dtype=np.int64),
        measured=np.array(measured),
        reasons=reasons,
        change=np.array(change, dtype=np.float64),
        emotion=np.array(emotion, dtype=np.float64),
        last_change=np.array(last_change, dtype=np.float64),
    )


Masks = tuple[NDArray[np.bool_], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class LearningMaterial:
    """Nothing in it comes from a judgement, so folds may share it."""

    examples: Examples
    reply_vectors: scipy.sparse.csr_array
    user_vectors: scipy.sparse.csr_array
    reply_kernel: Floats  # (rows, rows), of weights for everybody plus weights for each need
    user_kernel: Floats  # of weights for everybody


def material(examples: Examples, parameters: DistilParameters) -> LearningMaterial:
    reply_vectors, user_vectors = presence(examples.reply, parameters.bits), presence(examples.user, parameters.bits)
    reply_likeness, user_likeness = (np.array((one @ one.T).toarray(), dtype=np.float32) for one in (reply_vectors, user_vectors))
    need = examples.need
    same = np.asarray((need[:, None] == need[None]) & (need[:, None] >= 0), dtype=np.float32)
    by_need = np.asarray(reply_likeness * (1 + same) + NEED_CONSTANT * same + CONSTANT, dtype=np.float32)
    return LearningMaterial(examples, reply_vectors, user_vectors, by_need, user_likeness + np.float32(CONSTANT))


def presence(texts: Sequence[str], bits: int) -> scipy.sparse.csr_array:
    """(texts, 2**bits): 1 over the root of their number for every bucket that occurs."""
    columns = [read(text).buckets(bits) for text in texts]
    begins = np.concatenate([[0], np.cumsum([len(one) for one in columns])])
    values = np.concatenate([np.full(len(one), 1 / np.sqrt(max(1, len(one))), dtype=np.float32) for one in columns])
    return scipy.sparse.csr_array((values, np.concatenate(columns), begins), shape=(len(texts), 1 << bits))


def inner_cells(examples: Examples, rows: NDArray[np.int64], folds: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(rows, rows): the persona fold and the policy fold of each of the given rows. The dealing is shifted against that of the outer folds,
    whose held-out names would otherwise leave one fold empty."""
    dialogues = [examples.dialogues[number] for number in examples.dialogue[rows]]
    return (
        _dealt("inner persona", [one.persona_id for one in dialogues], folds),
        _dealt("inner policy", [one.policy for one in dialogues], folds),
    )


def _dealt(kind: str, names: list[str], folds: int) -> NDArray[np.int64]:
    """(names): the fold of each; the distinct ones are dealt round in hash order."""
    fold_of = {name: number % folds for number, name in enumerate(hash_order(kind, names))}
    return np.array([fold_of[name] for name in names], dtype=np.int64)


def masks_of(persona: NDArray[np.int64], policy: NDArray[np.int64]) -> list[Masks]:
    """(left out, predicted) for every cell: its personas and, if there are several, its policies are left out."""
    several = len(set(policy.tolist())) > 1
    cells = sorted(set(zip(persona.tolist(), policy.tolist(), strict=True)))
    return [((persona == who) | ((policy == by) & several), (persona == who) & (policy == by)) for who, by in cells]


def reason_vectors(examples: Examples, rows: NDArray[np.int64], components: int, bits: int, seed: int) -> Floats:
    """(rows, components): what users said of these replies, by its main directions, each of mean 0 and variance 1 (0 if there are fewer)."""
    from sklearn.decomposition import TruncatedSVD

    found = np.zeros((len(rows), components), dtype=np.float32)
    vectors = presence([examples.reasons[row] for row in rows], bits)
    common = np.flatnonzero(np.asarray((vectors > 0).sum(axis=0)).ravel() >= max(2, len(rows) // 200))
    possible = min(components, len(common) - 1, len(rows) - 1)
    if possible < 1:
        return found
    rarity = np.log(len(rows) / np.asarray((vectors[:, common] > 0).sum(axis=0)).ravel()).astype(np.float32)
    parts = TruncatedSVD(possible, random_state=seed).fit_transform(vectors[:, common] * rarity[None])
    spread = parts.std(axis=0)
    found[:, :possible] = (parts - parts.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    return found


def known_shares(texts: list[str], fold: NDArray[np.int64]) -> Numbers:
    """(texts): the share of each text's runs of two units that occur in texts of other folds than its own; 1 where it has none."""
    reads = [read(text) for text in texts]
    shares = np.ones(len(texts))
    for one in sorted(set(fold.tolist())):
        others = [text.pairs for text, of in zip(reads, fold, strict=True) if of != one]
        known = np.unique(np.concatenate([np.empty(0, dtype=np.uint32), *others]))
        for place in np.flatnonzero(fold == one):
            runs = reads[place].hashes[1]
            if len(runs):
                shares[place] = float(np.isin(runs, known).mean())
    return shares


def hash_order(kind: str, names: Iterable[str]) -> list[str]:
    """The distinct names in the order of sha256("<kind>:<name>"): arbitrary, and the same everywhere."""
    return sorted(set(names), key=lambda name: hashlib.sha256(f"{kind}:{name}".encode()).hexdigest())


class Locked(NamedTuple):
    """Personas and policy models that no choice is made on."""

    personas: frozenset[str]
    policies: frozenset[str]


def locked(dialogues: Sequence[Dialogue], share: float) -> Locked:
    """The first names in hash order, rounded up to whole ones; a single policy model is never locked, for nothing would be left."""
    personas = hash_order("persona", (dialogue.persona_id for dialogue in dialogues))
    policies = hash_order("policy", (dialogue.policy for dialogue in dialogues))
    if len(personas) < 2:
        raise ValueError(f"dialogues with at least 2 personas are needed to hold some out, got {len(personas)}")
    most = math.ceil(share * len(policies)) if len(policies) > 1 else 0
    return Locked(frozenset(personas[: math.ceil(share * len(personas))]), frozenset(policies[:most]))


class Fold(NamedTuple):
    """Positions of dialogues: `scored` by what was learned from `learned`, which shares no persona with them and, where `policies` tells
    several models apart, no model either."""

    learned: tuple[int, ...]
    scored: tuple[int, ...]


def cross_folds(dialogues: Sequence[Dialogue], persona_folds: int, policy_folds: int) -> Iterator[Fold]:
    """Every dialogue is scored once. Personas and policy models are dealt round in hash order; fewer of them give fewer folds."""
    persona = _dealt("persona", [dialogue.persona_id for dialogue in dialogues], persona_folds)
    policy = _dealt("policy", [dialogue.policy for dialogue in dialogues], policy_folds)
    for left_out, scored in masks_of(persona, policy):
        yield Fold(tuple(np.flatnonzero(~left_out).tolist()), tuple(np.flatnonzero(scored).tolist()))
