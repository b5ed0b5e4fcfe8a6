from __future__ import annotations

import pytest

from rlver.components.domain.emotion import EmotionRules, ImpossibleDialogue, check_arithmetic, check_stops
from rlver.components.domain.transcript import Dialogue, StopReason

RULES = EmotionRules(start=40, ceiling=100, floor=10, max_turns=3)


def changed(dialogue: Dialogue, turn: int | None = None, **values: object) -> Dialogue:
    """A copy with other values in the dialogue, or in one of its turns."""
    if turn is None:
        return dialogue.model_copy(update=values)
    turns = list(dialogue.turns)
    turns[turn] = turns[turn].model_copy(update=values)
    return dialogue.model_copy(update={"turns": tuple(turns)})


def test_emotions_that_follow_from_the_changes_are_accepted(dialogue, failed):
    check_arithmetic(dialogue("a", [5, -3, 10]))
    check_arithmetic(dialogue("a", [10] * 6))  # 40 + 6 x 10 = 100
    check_arithmetic(dialogue("a", [-10, 10], start=3))  # clamped at 0, then 10
    check_arithmetic(dialogue("a", [10, 2], start=95))  # clamped at 100
    check_arithmetic(failed("a"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"turn": 1, "emotion": 43}, r"turn 2: emotion 45 with change -3 gives 42, got 43"),
        ({"turn": 0, "emotion": 46}, r"turn 1: emotion 40 with change \+5 gives 45, got 46"),
        ({"turn": 2, "emotion": None}, r"turn 3 has no appraisal"),
        ({"turn": 0, "appraisal": None}, r"turn 1 has no appraisal"),
        ({"emotion_final": 99}, r"the last emotion is 52, but emotion_final is 99"),
        ({"emotion_final": None}, r"emotion_final is None"),
        ({"emotion_start": 41}, r"turn 1: emotion 41 with change \+5 gives 46, got 45"),
        ({"error": "lost"}, r"yet names an error: lost"),
        ({"stop_reason": StopReason.FAILED}, r"without saying why"),
        ({"stop_reason": StopReason.FAILED, "error": "lost"}, r"it has no final emotion, got 52"),
        ({"turns": ()}, r"without a turn"),
    ],
)
def test_impossible_numbers_are_named(dialogue, values: dict[str, object], message: str):
    with pytest.raises(ImpossibleDialogue, match=message) as caught:
        check_arithmetic(changed(dialogue("a", [5, -3, 10]), **values))  # type: ignore[arg-type]
    assert str(caught.value).startswith("dialogue a/0: ")
    assert "\n" not in str(caught.value)


def test_stops_that_the_rules_demand_are_accepted(dialogue, failed):
    check_stops(dialogue("a", [5, -3, 10]), RULES)
    check_stops(dialogue("a", [5], stop=StopReason.GOODBYE), RULES)
    check_stops(dialogue("a", [5, -9], stop=StopReason.CONTEXT_FULL), RULES)
    check_stops(dialogue("a", [-10, -10, -10]), RULES)
    check_stops(dialogue("a", [10] * 6), EmotionRules())
    check_stops(failed("a"), RULES)


def test_impossible_stops_are_named(dialogue):
    cases = [
        (dialogue("a", [5, 5, 5], start=30), "it starts at emotion 30, the parameters say 40"),
        (dialogue("a", [1, 1, 1, 1]), "it has 4 turns, the limit is 3"),
        (dialogue("a", [5, 5]), "it stopped by turn_limit at emotion 50 after turn 2, due: None"),
        (dialogue("a", [5, 5, 5], stop=StopReason.CONTEXT_FULL), "it stopped by context_full at emotion 55 after turn 3, due: turn_limit"),
        (changed(dialogue("a", [5, 5]), stop_reason=StopReason.EMOTION_CEILING), "it stopped by emotion_ceiling at emotion 50"),
        (
            changed(dialogue("a", [5, 5, 5]), stop_reason=StopReason.EMOTION_FLOOR),
            "emotion_floor at emotion 55 after turn 3, due: turn_limit",
        ),
    ]
    for case, message in cases:
        with pytest.raises(ImpossibleDialogue, match=message):
            check_stops(case, RULES)


def test_a_dialogue_that_goes_on_after_it_was_over_is_impossible(dialogue):
    with pytest.raises(ImpossibleDialogue, match="should have stopped by emotion_ceiling after turn 6 at emotion 100, but went on"):
        check_stops(dialogue("a", [10] * 7), EmotionRules())
    with pytest.raises(ImpossibleDialogue, match="should have stopped by emotion_floor after turn 4 at emotion 0, but went on"):
        check_stops(dialogue("a", [-10] * 4 + [10, 10]), EmotionRules())
