"""Recorded dialogues as rows to learn from: one row a judged reply, with what the appraiser may see apart from what it should say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from components.dialogue.transcript import Dialogue
from components.personas.persona import Persona
from components.simulator.distilled.measures import measures
from components.simulator.distilled.moment import NEEDS, known_from, moments_of

NOBODY_KNOWS = -1  # the need of a row whose need is not recorded


@dataclass(frozen=True, eq=False)
class Examples:
    """All arrays have one entry a row; rows of a dialogue stand together, in its order."""

    dialogues: tuple[Dialogue, ...]  # with at least one judged reply
    dialogue: NDArray[np.int64]  # position in `dialogues`
    turn: NDArray[np.int64]  # from 0
    reply: tuple[str, ...]
    user: tuple[str, ...]
    need: NDArray[np.int64]  # position in NEEDS, or NOBODY_KNOWS
    measured: NDArray[np.float64]  # (rows, measures)
    reasons: tuple[str, ...]  # what the user said of the reply: to learn from, never to look at
    change: NDArray[np.float64]
    emotion: NDArray[np.float64]  # before the reply
    last_change: NDArray[np.float64]  # before the reply, 0 at the first

    def rows_of(self, positions: Sequence[int]) -> NDArray[np.int64]:
        return np.flatnonzero(np.isin(self.dialogue, np.asarray(positions, dtype=np.int64)))


def examples(dialogues: Sequence[Dialogue], personas: Mapping[str, Persona]) -> Examples:
    """The rows of all dialogues. Raises ValueError if nothing in them was judged."""
    kept = tuple(dialogue for dialogue in dialogues if dialogue.turns and dialogue.turns[0].appraisal is not None)
    if not kept:
        raise ValueError("no reply in these dialogues was judged, so there is nothing to learn from; `rlver import` keeps the judgements")
    where: list[tuple[int, int]] = []
    measured, change, emotion, last_change = [], [], [], []
    replies, users, reasons = [], [], []
    for number, dialogue in enumerate(kept):
        judged = [turn for turn in dialogue.turns if turn.appraisal is not None]
        known = known_from(dialogue.hidden_need, dialogue.original, personas.get(dialogue.persona_id))
        before, last = dialogue.emotion_start, 0
        moments = moments_of(known, [turn.user for turn in judged], [turn.assistant for turn in judged])
        for place, (turn, moment) in enumerate(zip(judged, moments, strict=True)):
            assert turn.appraisal is not None and turn.emotion is not None
            where.append((number, place))
            measured.append(measures(moment))
            replies.append(turn.assistant)
            users.append(turn.user)
            reasons.append(f"{turn.appraisal.target}\n{turn.appraisal.feeling}")
            change.append(turn.appraisal.change)
            emotion.append(before)
            last_change.append(last)
            before, last = turn.emotion, turn.appraisal.change
    need_of = [NEEDS.index(one.hidden_need) if one.hidden_need in NEEDS else NOBODY_KNOWS for one in kept]
    places = np.array(where, dtype=np.int64)
    return Examples(
        dialogues=kept,
        dialogue=places[:, 0],
        turn=places[:, 1],
        reply=tuple(replies),
        user=tuple(users),
        need=np.array(need_of, dtype=np.int64)[places[:, 0]],
        measured=np.array(measured),
        reasons=tuple(reasons),
        change=np.array(change, dtype=np.float64),
        emotion=np.array(emotion, dtype=np.float64),
        last_change=np.array(last_change, dtype=np.float64),
    )
