"""Emotion arithmetic, tiers and stops, with the numbers worked out."""

from __future__ import annotations

import pytest

from rlver.components.domain.emotion import EmotionRules, added, apply_change, stop_reason, tier
from rlver.components.domain.transcript import StopReason

RULES = EmotionRules()


@pytest.mark.parametrize(
    ("emotion", "change", "after"),
    [
        (40, 5, 45),
        (40, -5, 35),
        (40, 0, 40),
        (40, 25, 50),  # a change is at most 10
        (40, -25, 30),
        (95, 10, 100),  # emotion ends at 100
        (4, -9, 0),  # and at 0
        (100, 1, 100),
        (0, -1, 0),
    ],
)
def test_a_change_is_clamped_to_ten_and_emotion_to_its_range(emotion: int, change: int, after: int) -> None:
    assert apply_change(emotion, change) == after


@pytest.mark.parametrize(
    ("emotion", "name"), [(100, "S"), (99, "A"), (70, "A"), (69, "B"), (40, "B"), (39, "C"), (10, "C"), (9, "F"), (0, "F")]
)
def test_tiers_begin_at_100_70_40_and_10(emotion: int, name: str) -> None:
    assert tier(emotion) == name


@pytest.mark.parametrize(
    ("emotion", "turns", "wants_to_end", "reason"),
    [
        (100, 3, False, StopReason.EMOTION_CEILING),
        (99, 3, False, None),
        (10, 3, False, None),
        (9, 3, False, StopReason.EMOTION_FLOOR),
        (50, 9, False, None),
        (50, 10, False, StopReason.TURN_LIMIT),
        (50, 3, True, StopReason.GOODBYE),
        (100, 10, True, StopReason.EMOTION_CEILING),  # the emotion explains an end better than a goodbye or the limit
        (9, 10, True, StopReason.EMOTION_FLOOR),
        (50, 10, True, StopReason.GOODBYE),
    ],
)
def test_why_a_dialogue_ends(emotion: int, turns: int, wants_to_end: bool, reason: StopReason | None) -> None:
    assert stop_reason(emotion, turns, wants_to_end, RULES) == reason


def test_the_rules_of_the_published_benchmark_are_the_default() -> None:
    assert EmotionRules(start=40, ceiling=100, floor=10, max_turns=10) == RULES


def test_stops_follow_the_rules_they_are_given() -> None:
    rules = EmotionRules(start=50, ceiling=80, floor=30, max_turns=2)
    assert stop_reason(80, 1, False, rules) == StopReason.EMOTION_CEILING
    assert stop_reason(29, 1, False, rules) == StopReason.EMOTION_FLOOR
    assert stop_reason(50, 2, False, rules) == StopReason.TURN_LIMIT


def test_points_add_up_to_the_same_half_in_every_python():
    """Python 3.12 adds with compensation: 4.5 there, a little more before. A dialogue of the one was refused by the other."""
    points = [4.48, 1.04, 0.49, -0.55, -0.96]
    assert added(points) == ((((4.48 + 1.04) + 0.49) - 0.55) - 0.96) and round(added(points)) == 5
    assert added([]) == 0
