"""Rates of turns: pooled, or by turn number with the same weight for each."""

from __future__ import annotations

import pytest

from rlver.components.domain.acts import right_acts
from rlver.components.domain.transcript import Evidence, SimulatorTag
from rlver.components.scoring.sentient import sentient_metrics
from rlver.components.scoring.turns import by_turn, by_turn_differences, judged_turns, pooled_differences
from rlver.components.scoring.units import Sampling

RIGHT = (Evidence(step="target", what="serves_need"),)


def test_turn_numbers_weigh_the_same_however_many_dialogues_reach_them():
    """Turn 0: 1, 1, 1 and 0; turn 1: 0 only. Pooled 3 of 5; by turn the mean of .75 and 0."""
    side = {"a": [(0, 1.0)], "b": [(0, 1.0)], "c": [(0, 1.0)], "d": [(0, 0.0), (1, 0.0)]}
    values = by_turn(side, judged_turns(side), sorted(side))
    assert sum(values.values()) / 4 == pytest.approx(0.375)
    assert values["a"] == pytest.approx(0.375 + 4 / 2 * (1 - 0.75) / 4), "what it adds to the rate of turn 0, at half the weight"


def test_turn_numbers_that_less_than_a_tenth_reached_are_left_out():
    side = {str(number): [(0, 1.0), *([(1, 0.0)] if number < 2 else []), *([(2, 0.0)] if number < 3 else [])] for number in range(21)}
    assert judged_turns(side) == {0, 2}  # 21, 2 and 3 dialogues
    assert judged_turns(side, {"a": [(2, 1.0), (3, 1.0)]}) == {2}


def test_a_difference_has_the_mean_and_the_personas_of_both_sides():
    tuned, base = {"a": [(0, 1.0)], "b": [(0, 1.0), (1, 1.0)]}, {"a": [(0, 0.0), (1, 0.0)], "c": [(0, 1.0)]}
    found = by_turn_differences(tuned, base)  # (1 + 1) / 2 against (.5 + 0) / 2
    assert set(found) == {"a", "b", "c"} and sum(found.values()) / 3 == pytest.approx(0.75)
    assert by_turn_differences(tuned, {}) == {} == by_turn_differences({"a": [(4, 1.0)]}, base)


def test_pooled_means_let_those_with_more_turns_weigh_more():
    found = pooled_differences({"a": [1.0], "b": [0.0, 0.0, 0.0]}, {"a": [0.0], "b": [0.0]})
    assert sum(found.values()) / 2 == pytest.approx(0.25)


def test_acts_count_from_the_first_cue_on_with_their_turn_number(dialogue):
    told = dialogue("a", [0] * 4, cues=[False, True, False, False], evidence=[RIGHT, RIGHT, (), RIGHT])
    assert right_acts(told) == [(1, 1.0), (2, 0.0), (3, 1.0)]


@pytest.mark.parametrize(
    ("kind", "persona", "known"),
    [
        ("scripted+talking", "en-train-0001", True),
        ("llm+talking", "en-train-0001", False),
        ("distilled+scripted", "en-train-0001", False),
        ("heard+talking", "en-train-0001", True),
        ("heard+talking", "en-boundary-train-0001", False),
        ("special+talking", "en-danger-test-0001", False),
        ("scripted+talking", "en-danger-test-0001", True),
        ("polite+scripted", "en-train-0001", False),
    ],
)
def test_where_nobody_says_what_serves_the_need_there_is_no_rate(dialogue, kind, persona, known):
    tag = SimulatorTag(kind=kind, difficulty="vanilla", version="1")
    told = [dialogue(f"{persona}-{number}", [0], cues=[True]).model_copy(update={"simulator": tag}) for number in range(2)]
    assert [right_acts(one) for one in told] == [[(0, 0.0)] if known else []] * 2
    assert sentient_metrics(told, None, Sampling(200, 7))["right_act_rate"] == (0 if known else None)


def test_a_trace_of_the_need_is_not_found(dialogue):
    evidence = [(Evidence(step="target", what="serves_need", points=3 * sure, probability=sure),) for sure in (0.16, 0.3)]
    assert right_acts(dialogue("a", [0, 0], cues=[True, False], evidence=evidence)) == [(0, 0.0), (1, 1.0)]


def test_the_pooled_number_keeps_its_name_and_the_other_has_one_of_its_own(dialogue):
    short = dialogue("p", [10], start=90, cues=[True], evidence=[RIGHT])
    long = dialogue("q", [0, 0, 0], cues=[True, False, False])
    metrics = sentient_metrics([short, long], None, Sampling(200, 7))
    assert (metrics["right_act_rate"], metrics["right_act_by_turn"]) == (0.25, pytest.approx(1 / 6, abs=1e-6))
    for name in ("right_act", "right_act_by_turn"):
        assert 0 <= metrics[f"{name}_ci95"]["lo"] < 1 / 6 < metrics[f"{name}_ci95"]["hi"]
