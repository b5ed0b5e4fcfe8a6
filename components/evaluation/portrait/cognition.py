"""The social-cognition map: x from structured (-5) to creative (+5), y from solution (-5) to emotion (+5).

The papers let a model place all policies at once, so a point depends on who else is on the map. Here both axes are counted, dialogue by
dialogue, against fixed ends: the four corners are policies that can be written down (`ANCHORS`), and no other policy moves a point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from components.evaluation.portrait.acts import EMOTION, NO_ACTS, SOLUTION, Act
from components.evaluation.portrait.quantities import mean
from components.evaluation.statistics import Interval

AXIS = Interval(-5.0, 5.0)
METHOD = "estimate from dialogue acts"

# What a policy would have to do to stand in a corner.
ANCHORS: dict[str, tuple[float, float]] = {
    "comforts in the same words every time": (-5.0, 5.0),
    "gives the same advice every time": (-5.0, -5.0),
    "feels with the person, each time in another way and in the person's words": (5.0, 5.0),
    "helps to solve it, each time in another way and in the person's words": (5.0, -5.0),
}


def creative(replies: Sequence[Act]) -> float | None:
    """Mean of three shares: replies whose acts differ from the one before, that pick up a word of the person's, that repeat nothing.

    The first reply has none before it, so all are shares of the later ones. In -5..5; None for a dialogue of one reply.
    """
    later = list(pairwise(replies))
    if not later:
        return None
    shares = sum((b.acts != a.acts) + b.is_grounded + ("repeats" not in b.found) for a, b in later) / (3 * len(later))
    return _on_axis(shares)


def emotional(replies: Sequence[Act]) -> float | None:
    """Acts about feelings among the acts about feelings and solutions; in -5..5, None where there is neither."""
    feeling = sum(len(reply.acts & EMOTION) for reply in replies)
    solving = sum(len(reply.acts & SOLUTION) for reply in replies)
    return _on_axis(feeling / (feeling + solving)) if feeling + solving else None


def cognition(replies_of: Mapping[str, Sequence[Sequence[Act]]], samples: int, seed: int) -> dict[str, Any]:
    """x and y with intervals, and the anchors; null without acts. `replies_of`: the dialogues of each persona."""
    axes = {}
    for name, rule in (("x", creative), ("y", emotional)):
        values = {
            persona: [value for replies in dialogues if (value := rule(replies)) is not None] for persona, dialogues in replies_of.items()
        }
        axes[name] = mean(values, AXIS, samples, seed, NO_ACTS)
    return {**axes, "method": METHOD, "anchors": {name: {"x": x, "y": y} for name, (x, y) in ANCHORS.items()}}


def _on_axis(share: float) -> float:
    return AXIS.low + (AXIS.high - AXIS.low) * share
