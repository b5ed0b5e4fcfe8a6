"""Offline estimates of the five capabilities (RLVER paper, appendix C) from dialogue acts: deterministic, free, and no more than estimates.

Every reply gets 0, 1/4, ... 1 by a rule that a person can check; a dialogue gets 1 + 4 x the mean over its replies, so 1 to 5 as a
judge would give. Rules see what is done, not how well it is worded: two policies compare, a policy and a judged one do not. docs/beyond-the-score.md.

The social-cognition map: x from structured (-5) to creative (+5), y from solution (-5) to emotion (+5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rlver.components.scoring.acts import EMOTION, NO_ACTS, OPENING, REASONING, SOLUTION, Act
from rlver.components.scoring.behaviour import mean
from rlver.components.scoring.statistics import Interval
from rlver.components.scoring.units import Sampling

LEVELS = Interval(1.0, 5.0)
METHOD = "estimate from dialogue acts"

Replies = Sequence[Act]


def empathic_depth(replies: Replies) -> list[float]:
    """0 without warmth or with harm; 1/4 for sympathy in general; 3/4 for naming what was not said; 1/4 more for the person's own words."""
    return [_warmth(reply) + 0.25 * (reply.is_grounded and _warmth(reply) > 0) for reply in replies]


def core_insight(replies: Replies) -> list[float]:
    """From the first cue on: 1 for acting on the hidden need, 1/2 where it comes near or is not believed yet, else 0."""
    return [
        1.0 if reply.serves else 0.5 if reply.found & {"serves_need", "near_need"} else 0.0 for reply in replies if reply.is_cued is True
    ]


def solution_crafting(replies: Replies) -> list[float]:
    """Of the replies that advise, analyse, lecture or console with a slogan: 0 with harm, else 1/4, 1/4 more with the person's own words,
    1/2 more where it is what is needed now."""
    return [
        0.0 if reply.harms else 0.25 + 0.25 * reply.is_grounded + 0.5 * reply.serves
        for reply in replies
        if reply.acts & REASONING or reply.acts & {"lecture", "platitude"}
    ]


def dialogue_guidance(replies: Replies) -> list[float]:
    """0 for harm, nothing, repetition and what comes too soon; 1/2 for going on as before; 1 for opening the talk or turning to another act."""
    before: list[Act | None] = [None, *replies][: len(replies)]
    return [
        0.0
        if reply.harms or not reply.acts or reply.found & {"repeats", "too_soon"}
        else 1.0
        if reply.acts & OPENING or (previous is not None and not reply.acts <= previous.acts)
        else 0.5
        for previous, reply in zip(before, replies, strict=True)
    ]


def style_adaptability(replies: Replies) -> list[float]:
    """From the second reply on: after one that did not help, 1 for other acts; after one that helped, 1 for not repeating itself."""
    return [
        float(later.acts != earlier.acts and bool(later.acts)) if earlier.change <= 0 else float("repeats" not in later.found)
        for earlier, later in pairwise(replies)
    ]


CAPABILITIES: dict[str, Callable[[Replies], list[float]]] = {
    "empathic_depth": empathic_depth,
    "core_insight": core_insight,
    "solution_crafting": solution_crafting,
    "dialogue_guidance": dialogue_guidance,
    "style_adaptability": style_adaptability,
}
_NOT_SEEN = {
    "core_insight": "nobody knows in which turns the users hinted at their need, or none did",
    "solution_crafting": "no reply advises or analyses",
    "style_adaptability": "no dialogue has a second reply",
}


def capabilities(replies_of: Mapping[str, Sequence[Replies]], how: Sampling) -> dict[str, Any]:
    """By name: value 1..5, ci95, n and method; null where no dialogue shows it. `replies_of`: the dialogues of each persona."""
    has_acts = any(any(dialogues) for dialogues in replies_of.values())
    found = {}
    for name, rule in CAPABILITIES.items():
        levels = {
            persona: [1 + 4 * sum(marks) / len(marks) for replies in dialogues if (marks := rule(replies))]
            for persona, dialogues in replies_of.items()
        }
        reason = _NOT_SEEN.get(name, "no reply was appraised") if has_acts else NO_ACTS
        found[name] = {**mean(levels, LEVELS, how, reason), "method": METHOD}
    return found


def _warmth(reply: Act) -> float:
    if reply.harms:
        return 0.0
    if "deep_empathy" in reply.acts:
        return 0.75
    if reply.acts & {"absolve", "praise", "invite_telling"}:
        return 0.5
    return 0.25 if reply.acts & {"acknowledge", "comfort", "self_disclose"} else 0.0


AXIS = Interval(-5.0, 5.0)

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


def cognition(replies_of: Mapping[str, Sequence[Sequence[Act]]], how: Sampling) -> dict[str, Any]:
    """x and y with intervals, and the anchors; null without acts. `replies_of`: the dialogues of each persona."""
    axes = {}
    for name, rule in (("x", creative), ("y", emotional)):
        values = {
            persona: [value for replies in dialogues if (value := rule(replies)) is not None] for persona, dialogues in replies_of.items()
        }
        has_acts = any(replies for dialogues in replies_of.values() for replies in dialogues)
        axes[name] = mean(values, AXIS, how, "no dialogue has replies that tell" if has_acts else NO_ACTS)
    return {**axes, "method": METHOD, "anchors": {name: {"x": x, "y": y} for name, (x, y) in ANCHORS.items()}}


def _on_axis(share: float) -> float:
    return AXIS.low + (AXIS.high - AXIS.low) * share
