from __future__ import annotations

import pytest

from rlver.components.domain.transcript import Evidence, SimulatorTag
from rlver.components.scoring.leaderboard import compare
from rlver.components.scoring.sentient import sentient_metrics
from rlver.components.scoring.units import Sampling, Units

RIGHT = (Evidence(step="target", what="serves_need"),)


def test_every_row_is_paired_and_has_an_interval(dialogue, failed):
    a = [dialogue("p", [0] * 10), dialogue("q", [-10] * 4), dialogue("only a", [0] * 10), failed("r")]
    b = [dialogue("p", [10] * 6), dialogue("q", [0] * 10), dialogue("r", [1] * 10)]
    comparison = compare(a, b, Sampling(500, 7))
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
    rows = {row.quantity: row for row in compare(same, same, Sampling(200, 7)).rows}
    low, high = rows["success_rate"].difference.ci95
    assert low < 0 < high


def test_a_rate_of_five_personas_proves_no_more_than_five_can(dialogue):
    """All five fail before and succeed after: the exact sign test says 2 / 2^5, a normal tail of the same error would say .0067."""
    before, after = ([dialogue(name, [change] * turns) for name in "abcde"] for change, turns in ((-10, 4), (10, 6)))
    rows = {row.quantity: row for row in compare(before, after, Sampling(200, 7)).rows}
    assert rows["success_rate"].p_holm > 0.0625


def test_right_acts_are_compared_where_cues_are_known(dialogue):
    a = [dialogue("p", [0, 0], cues=[True, False])]
    b = [dialogue("p", [0, 0], cues=[True, False], evidence=[RIGHT, ()])]
    rows = {row.quantity: row for row in compare(a, b, Sampling(200, 7)).rows}
    assert (rows["right_act_by_turn"].a, rows["right_act_by_turn"].b) == (0, 0.5)


def test_right_acts_are_compared_at_the_turn_numbers_that_both_reached(dialogue):
    """1 of 1 turn and 0 of 3. Alone: half, none and none, so a sixth; beside a policy whose dialogues end at once: half."""
    short = dialogue("p", [10], start=90, cues=[True], evidence=[RIGHT])
    long = dialogue("q", [0, 0, 0], cues=[True, False, False])
    at_once = [dialogue(name, [0], cues=[True]) for name in "pq"]
    for base, rate in (([long.model_copy(update={"persona_id": name}) for name in "pq"], 1 / 6), (at_once, 1 / 2)):
        row = {row.quantity: row for row in compare(base, [short, long], Sampling(200, 7)).rows}["right_act_by_turn"]
        assert (row.a, row.b) == (0, pytest.approx(rate)) and row.difference.value == pytest.approx(rate)
    assert sentient_metrics([short, long], None, Sampling(200, 7))["right_act_by_turn"] == pytest.approx(1 / 6, abs=1e-6)


def test_a_comparison_is_over_scenarios_where_they_are_known(dialogue):
    """Two stories with two personas each: gains of 20 and 40, so the mean of 30 has an error of 10 and one degree of freedom."""
    before = [dialogue(name, [0] * 10) for name in "abcd"]
    after = [dialogue(name, [gain] * 10) for name, gain in zip("abcd", (2, 2, 4, 4), strict=True)]
    units = Units({"a": "s", "b": "s", "c": "t", "d": "t"})
    found, alone = compare(before, after, Sampling(200, 7, units)), compare(before, after, Sampling(200, 7))
    assert (found.unit, found.units, found.personas, alone.unit, alone.units) == ("scenario", 2, 4, "persona", 4)
    assert found.rows[0].difference.ci95 == pytest.approx((30 - 12.706 * 10, 100), abs=0.01) and alone.rows[0].difference.ci95.low > 0
    assert found.rows[0].p_holm is not None and alone.rows[0].p_holm is not None and found.rows[0].p_holm > alone.rows[0].p_holm
    assert found.splits == {"imported": 4}


def test_what_cannot_be_compared_is_refused(dialogue):
    a = [dialogue("p", [0] * 10)]
    with pytest.raises(ValueError, match="no persona in common"):
        compare(a, [dialogue("q", [0] * 10)], Sampling(200, 7))
    other = a[0].model_copy(update={"simulator": SimulatorTag(kind="llm", difficulty="vanilla", version="2")})
    with pytest.raises(ValueError, match="llm/vanilla/2, scripted/vanilla/1"):
        compare(a, [other], Sampling(200, 7))
