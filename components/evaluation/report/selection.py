"""Which dialogues are shown first: best, median and worst of a variant, and the same user before and after. Chosen by rank, not by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from components.dialogue.transcript import Dialogue


class Chosen(NamedTuple):
    label: str
    dialogue: Dialogue


class Pair(NamedTuple):
    """The same persona with the base and with a trained policy; `gain` is the difference of the final emotions."""

    label: str
    before: Dialogue
    after: Dialogue
    gain: int


def best_median_worst(dialogues: Iterable[Dialogue]) -> list[Chosen]:
    """Ranked by final emotion; among equals the shorter dialogue is the better one, then the id decides. Unscorable ones have no rank."""
    ranked = sorted((d for d in dialogues if d.emotion_final is not None), key=lambda d: (d.emotion_final, -len(d.turns), d.dialogue_id))
    if not ranked:
        return []
    return _distinct([("best", ranked[-1]), ("median", ranked[(len(ranked) - 1) // 2]), ("worst", ranked[0])])


def _distinct(chosen: list[tuple[str, Dialogue]]) -> list[Chosen]:
    seen: dict[str, Chosen] = {}
    for label, dialogue in chosen:
        seen.setdefault(dialogue.dialogue_id, Chosen(label, dialogue))
    return list(seen.values())


def same_persona_pairs(base: Iterable[Dialogue], tuned: Iterable[Dialogue]) -> list[Pair]:
    """Largest, median and smallest gain over the personas scored on both sides (of repeats, the first by id)."""
    before, after = _first_of_persona(base), _first_of_persona(tuned)
    gains = sorted((_final(after[persona]) - _final(before[persona]), persona) for persona in before.keys() & after.keys())
    if not gains:
        return []
    picked: dict[str, Pair] = {}
    for label, (gain, persona) in (
        ("largest gain", gains[-1]),
        ("median gain", gains[(len(gains) - 1) // 2]),
        ("smallest gain", gains[0]),
    ):
        picked.setdefault(persona, Pair(label, before[persona], after[persona], gain))
    return list(picked.values())


def _first_of_persona(dialogues: Iterable[Dialogue]) -> dict[str, Dialogue]:
    first: dict[str, Dialogue] = {}
    for dialogue in sorted(dialogues, key=lambda d: d.dialogue_id):
        if dialogue.emotion_final is not None:
            first.setdefault(dialogue.persona_id, dialogue)
    return first


def _final(dialogue: Dialogue) -> int:
    assert dialogue.emotion_final is not None
    return dialogue.emotion_final
