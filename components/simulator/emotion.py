"""Emotion arithmetic, tiers and stops: the only place where they are defined, for training and evaluation alike.

Every reply is appraised, the last one too (the reference implementation leaves its tenth reply unscored).
"""

from __future__ import annotations

from dataclasses import dataclass

from components.dialogue.transcript import StopReason

LOWEST, HIGHEST = 0, 100
LARGEST_CHANGE = 10
_TIERS = ((100, "S"), (70, "A"), (40, "B"), (10, "C"))


@dataclass(frozen=True)
class EmotionRules:
    """When a dialogue starts, ends well, ends badly and ends anyway; all in points of 0..100 and user turns."""

    start: int = 40
    ceiling: int = 100
    floor: int = 10
    max_turns: int = 10


def apply_change(emotion: int, change: int) -> int:
    """The emotion after a change, both clamped: change to -10..10, emotion to 0..100 (SAGE paper, section 2)."""
    clamped = max(-LARGEST_CHANGE, min(LARGEST_CHANGE, change))
    return max(LOWEST, min(HIGHEST, emotion + clamped))


def tier(emotion: int) -> str:
    """S at 100, A from 70, B from 40, C from 10, F below."""
    return next((name for threshold, name in _TIERS if emotion >= threshold), "F")


def stop_reason(emotion: int, turns_done: int, wants_to_end: bool, rules: EmotionRules) -> StopReason | None:
    """Why the dialogue ends now, after `turns_done` appraised turns; None if it goes on."""
    if emotion >= rules.ceiling:
        return StopReason.EMOTION_CEILING
    if emotion < rules.floor:
        return StopReason.EMOTION_FLOOR
    if wants_to_end:
        return StopReason.GOODBYE
    if turns_done >= rules.max_turns:
        return StopReason.TURN_LIMIT
    return None
