from __future__ import annotations

import pytest

from rlver.components.domain.transcript import Evidence, SimulatorTag
from rlver.components.scoring.leaderboard import compare
from rlver.components.scoring.sentient import sentient_metrics

RIGHT = (Evidence(step="target", what="serves_need"),)


def test_every_row_is_paired_and_has_an_interval(dialogue, failed):
    a = [dialogue("p", [0] * 10), dialogue("q", [-10] * 4), dialogue("only a", [0] * 10), failed("r")]
    b = [dialogue("p", [10] * 6), dialogue("q", [0] * 10), dialogue("r", [1] * 10)]
    comparison = compare(a, b, 500, 7)
    assert (comparison.personas, comparison.only_a, comparison.only_b) == (2, 1, 1)
    assert (comparison.unscorable_a, comparison.unscorable_b) == (1, 0)
    rows = {row.quantity: row for row in comparison.rows}
    assert list(rows) == ["emotion_mean", "success_rate", "failure_rate", "turns_mean", "reply_tokens_mean"]
    emotion = rows["emotion_mean"]
    assert (emotion.a, emotion.b, emotion.difference.value) == (20, 70, 50)  # p: 40 -> 100, q: 0 -> 40
    assert emotion.difference.ci95 == pytest.approx((50 - 12.706 * 10, 100), abs=0.1)  # two personas; no difference is above 100
    assert (rows["success_rate"].difference.value, rows["failure_rate"].difference.value) == (0.5, -0.5)
    assert (rows["turns_mean"].a, rows["turns_mean"].b) == (7, 8)


def test_equal_rates_still_have_an_interval_with_width(dialogue):
    same = [dialogue(name, [0] * 10) for name in "abcdefgh"]
    rows = {row.quantity: row for row in compare(same, same, 200, 7).rows}
    low, high = rows["success_rate"].difference.ci95
    assert low < 0 < high


def test_right_acts_are_compared_where_cues_are_known(dialogue):
    a = [dialogue("p", [0, 0], cues=[True, False])]
    b = [dialogue("p", [0, 0], cues=[True, False], evidence=[RIGHT, ()])]
    rows = {row.quantity: row for row in compare(a, b, 200, 7).rows}
    assert (rows["right_act_rate"].a, rows["right_act_rate"].b) == (0, 0.5)


def test_the_right_act_rate_of_a_comparison_is_that_of_the_metrics(dialogue):
    """1 of 1 turn and 0 of 3: a quarter of the turns, and not half of the dialogues."""
    short = dialogue("p", [10], start=90, cues=[True], evidence=[RIGHT])
    long = dialogue("q", [0, 0, 0], cues=[True, False, False])
    base = [dialogue(name, [0], cues=[True]) for name in "pq"]
    rows = {row.quantity: row for row in compare(base, [short, long], 200, 7).rows}
    assert rows["right_act_rate"].b == sentient_metrics([short, long], None, 200, 7)["right_act_rate"] == 0.25
    assert rows["right_act_rate"].difference.value == pytest.approx(0.25)


def test_what_cannot_be_compared_is_refused(dialogue):
    a = [dialogue("p", [0] * 10)]
    with pytest.raises(ValueError, match="no persona in common"):
        compare(a, [dialogue("q", [0] * 10)], 200, 7)
    other = a[0].model_copy(update={"simulator": SimulatorTag(kind="llm", difficulty="vanilla", version="2")})
    with pytest.raises(ValueError, match="llm/vanilla/2, scripted/vanilla/1"):
        compare(a, [other], 200, 7)
