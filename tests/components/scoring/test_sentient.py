from __future__ import annotations

import json

import pytest

from rlver.components.domain.transcript import Evidence, SimulatorTag, StopReason
from rlver.components.scoring.sentient import right_act_rate, sentient_metrics
from rlver.components.scoring.units import Sampling, Units
from rlver.tasks.runtime.boards import score_text

RIGHT = (Evidence(step="target", what="serves_need"),)
WRONG = (Evidence(step="content", what="advice"), Evidence(step="target", what="misses"))
NAMES = {
    "n", "emotion_mean", "emotion_ci95", "success_rate", "success_ci95", "failure_rate", "failure_ci95", "turns_mean", "failed_dialogues",
    "unscorable_share", "by_need", "by_class", "paired_to_base", "settings_digest", "reply_tokens_mean", "think_tokens_mean",
    "stop_reasons", "right_act_rate", "right_act_ci95", "right_act_rate_by_need", "turns_ci95", "reply_tokens_ci95", "think_tokens_ci95",
    "detectable", "course", "persona_splits", "interval_unit", "interval_units", "right_act_by_turn", "right_act_by_turn_ci95",
}  # fmt: skip


@pytest.fixture
def four(dialogue):
    """Finals 100, 50, 40 and 0: one success, one failure."""
    return [
        dialogue("a", [10] * 6, need="deep_empathy"),
        dialogue("b", [1] * 10, need="deep_empathy"),
        dialogue("c", [0] * 10, need="useful_advice"),
        dialogue("d", [-10] * 4, need="useful_advice"),
    ]


def test_the_metrics_have_exactly_their_names(four):
    metrics = sentient_metrics(four, None, Sampling(200, 7))
    assert set(metrics) == NAMES
    assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics


def test_worked_example(four):
    metrics = sentient_metrics(four, None, Sampling(200, 7), settings_digest="abc")
    assert metrics["n"] == 4
    assert metrics["emotion_mean"] == 47.5  # (100 + 50 + 40 + 0) / 4
    assert (metrics["success_rate"], metrics["failure_rate"]) == (0.25, 0.25)
    assert metrics["turns_mean"] == 7.5  # (6 + 10 + 10 + 4) / 4
    assert metrics["stop_reasons"] == {"emotion_ceiling": 1, "emotion_floor": 1, "turn_limit": 2}
    assert (metrics["reply_tokens_mean"], metrics["think_tokens_mean"]) == (8, 3)
    assert metrics["by_need"]["deep_empathy"]["emotion_mean"] == 75
    assert metrics["by_need"]["useful_advice"]["failure_rate"] == 0.5
    assert metrics["emotion_ci95"]["lo"] < 47.5 < metrics["emotion_ci95"]["hi"]
    assert metrics["settings_digest"] == "abc"
    assert metrics["paired_to_base"] is None


def test_success_begins_at_100_and_failure_ends_below_10(dialogue):
    metrics = sentient_metrics([dialogue("a", [9, 10], start=80), dialogue("b", [-10, -10, -10])], None, Sampling(200, 7))
    assert (metrics["success_rate"], metrics["failure_rate"]) == (0, 0)  # 99 and 10


def test_a_full_context_is_scored_and_counted_by_itself(dialogue):
    full = sentient_metrics([dialogue("a", [5, 5, 5]), dialogue("b", [-8], stop=StopReason.CONTEXT_FULL)], None, Sampling(200, 7))
    assert (full["failed_dialogues"], full["stop_reasons"]["context_full"], full["emotion_mean"]) == (0, 1, 43.5)


def test_a_failed_dialogue_is_counted_and_enters_no_mean(four, failed):
    with_failure = sentient_metrics([*four, failed("e")], None, Sampling(200, 7))
    without = sentient_metrics(four, None, Sampling(200, 7))
    assert (with_failure["n"], with_failure["failed_dialogues"], with_failure["unscorable_share"]) == (5, 1, 0.2)
    assert with_failure["stop_reasons"]["failed"] == 1
    same = ("emotion_mean", "emotion_ci95", "success_rate", "failure_rate", "turns_mean", "by_need")
    assert {name: with_failure[name] for name in same} == {name: without[name] for name in same}


def test_nothing_scorable_is_an_error_that_names_the_reason(failed):
    with pytest.raises(ValueError, match="none of 2 dialogues can be scored; most frequent failure: context overflow"):
        sentient_metrics([failed("a"), failed("b")], None, Sampling(200, 7))


def test_classes_come_from_the_personas(four):
    metrics = sentient_metrics(four, None, Sampling(200, 7), classes={"a": "negative", "b": "negative", "c": "passive"})
    assert {name: group["n"] for name, group in metrics["by_class"].items()} == {"negative": 2, "passive": 1, "unknown": 1}
    assert metrics["by_class"]["passive"]["emotion_ci95"] == {"lo": 0, "hi": 100}  # one persona: nothing known about the spread


def test_the_paired_difference_averages_repeats_and_uses_shared_personas(dialogue, failed):
    base = [dialogue("a", [0] * 10), dialogue("b", [-1] * 10), dialogue("only base", [1] * 10)]  # 40, 30
    tuned = [
        dialogue("a", [3] * 10, repeat=0),  # 70
        dialogue("a", [1] * 10, repeat=1),  # 50, mean 60: +20
        dialogue("b", [0] * 10),  # 40: +10
        failed("only base"),
    ]
    paired = sentient_metrics(tuned, base, Sampling(500, 7))["paired_to_base"]
    assert paired["difference"] == 15
    assert paired["ci95"] == pytest.approx({"lo": 15 - 12.706 * 5, "hi": 15 + 12.706 * 5}, abs=0.01)  # two personas: t of one degree
    assert (paired["personas"], paired["unpaired_personas"]) == (2, 1)


def test_pairing_needs_a_shared_persona_and_one_simulator(dialogue):
    with pytest.raises(ValueError, match="no persona in common"):
        sentient_metrics([dialogue("a", [0] * 10)], [dialogue("b", [0] * 10)], Sampling(200, 7))
    harder = SimulatorTag(kind="scripted", difficulty="challenging", version="1")
    other = dialogue("a", [0] * 10).model_copy(update={"simulator": harder})
    with pytest.raises(ValueError, match="scripted/challenging/1, scripted/vanilla/1"):
        sentient_metrics([dialogue("a", [0] * 10)], [other], Sampling(200, 7))


def test_intervals_are_over_scenarios_where_they_are_known(four):
    """Finals 100 and 50 in one story, 40 and 0 in the other: means 75 and 20, so an error of 27.5 with one degree of freedom."""
    stories = {"a": "s", "b": "s", "c": "t", "d": "t"}
    told, alone = sentient_metrics(four, four, Sampling(200, 7, Units(stories))), sentient_metrics(four, four, Sampling(200, 7))
    assert (told["interval_unit"], told["interval_units"], alone["interval_unit"], alone["interval_units"]) == ("scenario", 2, "persona", 4)
    assert told["emotion_mean"] == alone["emotion_mean"] and told["emotion_ci95"] == {"lo": 0, "hi": 100}
    assert told["detectable"] > alone["detectable"]
    assert told["paired_to_base"]["personas"] == 4


def test_stories_that_differ_make_every_interval_wider(dialogue):
    """Two personas of each of four stories end alike, so eight personas say no more than four stories."""
    finals = {f"{story}{number}": change for story, change in zip("stuv", (2, 1, 0, -2), strict=True) for number in range(2)}
    tuned = [dialogue(name, [change] * 10) for name, change in finals.items()]
    base = [dialogue(name, [0] * 10) for name in finals]
    stories = {name: name[0] for name in finals}
    told, alone = (sentient_metrics(tuned, base, Sampling(2000, 7, units)) for units in (Units(stories), Units()))

    def width(metrics, *path):
        for part in path:
            metrics = metrics[part]
        low, high = (metrics[end] for end in ("lo", "hi"))
        assert path[-1] != "emotion_ci95" or 0 < low < high < 100, "not cut, so what is compared is the interval"
        return high - low

    for path in (("emotion_ci95",), ("paired_to_base", "ci95"), ("failure_ci95",)):
        assert width(told, *path) > 1.1 * width(alone, *path), path


def test_equal_values_do_not_say_what_would_be_found(dialogue):
    best, base = ([dialogue(name, [change] * turns) for name in "abcde"] for change, turns in ((10, 6), (0, 10)))
    metrics = sentient_metrics(best, base, Sampling(200, 7))
    assert metrics["detectable"] is None and metrics["paired_to_base"]["detectable"] is None


def test_the_order_of_the_dialogues_does_not_matter(four):
    assert sentient_metrics(four, four, Sampling(300, 7)) == sentient_metrics(four[::-1], four, Sampling(300, 7))


def test_right_acts_count_from_the_first_cue_on(dialogue):
    # no cue yet | cue, right | later turn, wrong | later turn, right -> 2 of 3
    one = dialogue("a", [0] * 4, cues=[False, True, False, False], evidence=[RIGHT, RIGHT, WRONG, RIGHT])
    no_cue = dialogue("b", [0] * 2, cues=[False, False], evidence=[RIGHT, RIGHT])
    assert right_act_rate([one, no_cue]) == pytest.approx(2 / 3, abs=1e-6)


def test_a_cue_does_not_carry_over_to_the_next_dialogue(dialogue):
    cued = dialogue("a", [0], cues=[True], evidence=[WRONG])
    later = dialogue("b", [0], cues=[False], evidence=[RIGHT])
    assert right_act_rate([cued, later]) == 0


def test_without_known_cues_there_is_no_rate(dialogue):
    foreign = dialogue("a", [0] * 3, cues=[None] * 3, need=None, stop=StopReason.GOODBYE, tokens=None)
    metrics = sentient_metrics([foreign], None, Sampling(200, 7))
    assert metrics["right_act_rate"] is None
    assert metrics["right_act_rate_by_need"] == {"unknown": None}
    assert metrics["reply_tokens_mean"] is None


def test_right_acts_by_need_hide_no_failing_need(dialogue):
    good = dialogue("a", [0], need="deep_empathy", cues=[True], evidence=[RIGHT])
    bad = dialogue("b", [0], need="useful_advice", cues=[True], evidence=[WRONG])
    metrics = sentient_metrics([good, bad], None, Sampling(200, 7))
    assert metrics["right_act_rate"] == 0.5
    assert metrics["right_act_rate_by_need"] == {"deep_empathy": 1, "useful_advice": 0}


def test_what_is_detectable_to_another_policy_is_told_with_its_condition(four):
    line = next(line for line in score_text(sentient_metrics(four, None, Sampling(200, 7))).splitlines() if line.startswith("detectable"))
    assert line.endswith("at most, to another policy on the same personas, with 80% power, if the other one spreads the same")
