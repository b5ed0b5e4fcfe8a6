"""What a portrait is made of: a number with its interval, or null with the reason why it cannot be known. Never a zero in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from components.dialogue.transcript import Dialogue
from components.evaluation.statistics import Estimated, Interval, cluster_bootstrap, proportion

SHARES = Interval(0.0, 1.0)

Values = Mapping[str, Sequence[float]]  # by persona


def known(estimated: Estimated) -> dict[str, Any]:
    """JSON-ready: value, ci95 and n, the personas behind them."""
    low, high = estimated.ci95
    return {"value": round(estimated.value, 6), "ci95": [round(low, 6), round(high, 6)], "n": estimated.n}


def unknown(reason: str) -> dict[str, Any]:
    return {"value": None, "ci95": None, "n": 0, "reason": reason}


def mean(values: Values, whole_range: Interval, samples: int, seed: int, reason: str) -> dict[str, Any]:
    """With fewer than two personas there is no interval, so there is no number; `reason` is why there may be no values at all."""
    having = sum(1 for members in values.values() if members)
    if having == 0:
        return unknown(reason)
    if having == 1:
        return unknown("one persona says nothing about the spread")
    return known(cluster_bootstrap(values, samples, seed, whole_range))


def share(values: Values, reason: str) -> dict[str, Any]:
    """Of 0/1 values."""
    return known(proportion(values)) if any(values.values()) else unknown(reason)


def by_persona(dialogues: Iterable[Dialogue], values_of: Callable[[Dialogue], Iterable[float]]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for dialogue in dialogues:
        values.setdefault(dialogue.persona_id, []).extend(values_of(dialogue))
    return values
