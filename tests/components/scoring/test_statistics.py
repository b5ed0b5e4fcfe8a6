from __future__ import annotations

import math

import numpy as np
import pytest

from rlver.components.scoring import statistics
from rlver.components.scoring.statistics import Interval

RANGE = Interval(0.0, 100.0)


def test_the_mean_is_over_dialogues_and_n_counts_personas():
    estimated = statistics.cluster_bootstrap({"a": [10.0, 20.0], "b": [30.0], "c": []}, 200, 1, RANGE)
    assert estimated.value == pytest.approx(20.0)  # (10 + 20 + 30) / 3
    assert estimated.n == 2


def test_two_clusters_have_student_s_interval():
    # half the draws hold one cluster only and have no error: mean 10, standard error 1, t of one degree 12.706
    estimated = statistics.cluster_bootstrap({"a": [9.0], "b": [11.0]}, 4000, 1, Interval(-100.0, 100.0))
    assert estimated.ci95 == pytest.approx((10 - 12.706, 10 + 12.706), abs=1e-2)
    assert statistics.cluster_bootstrap({"a": [0.0], "b": [100.0]}, 4000, 1, RANGE).ci95 == RANGE, "no mean is outside the range"


def test_two_to_four_clusters_have_student_s_interval_and_five_the_bootstrap_s():
    values = {name: [value] for name, value in zip("abcde", (1.0, 2.0, 3.0, 7.0, 9.0), strict=True)}
    four = {name: values[name] for name in "abcd"}  # mean 3.25, standard deviation 2.63, t of three degrees 3.182
    wide = Interval(-100.0, 100.0)
    low, high = statistics.cluster_bootstrap(four, 4000, 1, wide).ci95
    assert (high - low) / 2 == pytest.approx(3.182 * 2.63 / 2, abs=0.01)
    assert statistics.cluster_bootstrap(four, 4000, 1, wide) == statistics.cluster_bootstrap(four, 4000, 2, wide), "nothing is drawn"
    assert statistics.cluster_bootstrap(values, 4000, 1, wide) != statistics.cluster_bootstrap(values, 4000, 2, wide)


def test_few_equal_values_still_have_an_interval():
    """Wilson's upper end for 0 of 3 is z² / (3 + z²) = .5615: so many may lie at either end."""
    low, high = statistics.cluster_bootstrap({name: [7.0, 7.0] for name in "abc"}, 200, 1, RANGE).ci95
    assert (low, high) == pytest.approx((7 - 0.5615 * (7 - RANGE.low), 7 + 0.5615 * (RANGE.high - 7)), abs=1e-3)
    low, high = statistics.cluster_bootstrap({name: [7.0] for name in "abc"}, 200, 1, Interval(0.0, math.inf)).ci95
    assert high == pytest.approx(7 + 0.5615 * 7, abs=1e-3), "without an end of the range the value's own size"


def test_many_equal_values_are_no_certainty_either():
    """Wilson's upper end for 0 of 30 is z² / (30 + z²) = .1135: more than one in nine may end elsewhere, at the worst at 0."""
    low, high = statistics.cluster_bootstrap({str(number): [100.0] for number in range(30)}, 200, 1, Interval(0.0, 100.0)).ci95
    assert (low, high) == (pytest.approx(100 - 11.35, abs=0.01), 100)


def test_equal_differences_are_above_zero_from_where_the_sign_test_says_so():
    """p is 2 x 0.5^5 = .0625 of five and .031 of six; of six equal gains of 4, Wilson's end for 0 of 6 = .3903 may be none or twice as much."""
    five, six = ({str(number): 4.0 for number in range(count)} for count in (5, 6))
    assert statistics.p_differs(statistics.paired_scores(list(five.values()))) == pytest.approx(0.0625)
    assert statistics.paired_mean(five, 200, 1, Interval(-100.0, 100.0)).ci95.low < 0
    assert statistics.p_differs(statistics.paired_scores(list(six.values()))) == pytest.approx(0.03125)
    low, high = statistics.paired_mean(six, 200, 1, Interval(-100.0, 100.0)).ci95
    assert (low, high) == pytest.approx((4 - 4 * 0.3903, 4 + 4 * 0.3903), abs=1e-3)
    flat = statistics.paired_mean(dict.fromkeys(six, 0.0), 200, 1, Interval(-1.0, 1.0)).ci95
    assert flat == pytest.approx((-0.0039, 0.0039), abs=1e-5), "a hundredth of the range"


def test_equal_values_on_a_scale_with_two_sides_are_no_differences():
    """Thirty personas at the upper end of -5 to 5: one in nine (.1135) may stand at the lower end. Without ends the value's size, at least 1."""
    low, high = statistics.cluster_bootstrap({str(number): [5.0] for number in range(30)}, 200, 1, Interval(-5.0, 5.0)).ci95
    assert (low, high) == (pytest.approx(5 - 0.1135 * 10, abs=1e-3), 5)
    low, high = statistics.cluster_bootstrap({str(number): [0.2] for number in range(6)}, 200, 1, Interval(-math.inf, math.inf)).ci95
    assert (low, high) == pytest.approx((0.2 - 0.3903, 0.2 + 0.3903), abs=1e-3)


def test_equal_differences_need_no_range_with_two_equal_sides():
    """Six gains of 4 over a base that could have gained 20 and lost 80."""
    low, high = statistics.paired_mean({str(number): 4.0 for number in range(6)}, 200, 1, Interval(-80.0, 20.0)).ci95
    assert (low, high) == pytest.approx((4 - 4 * 0.3903, 4 + 4 * 0.3903), abs=1e-3)


@pytest.mark.parametrize("gain", [0.1, 8.3, 33.3, 100 / 3, 57.1])
@pytest.mark.parametrize("count", [6, 7, 11, 12, 500])
def test_equal_differences_are_equal_though_their_mean_is_rounded(gain: float, count: int):
    """0.1 six times has the mean 0.09999999999999998: that is no spread."""
    low, high = statistics.paired_mean({str(number): gain for number in range(count)}, 200, 1, Interval(-100.0, 100.0)).ci95
    assert high - low == pytest.approx(2 * max(gain, 1.0) * statistics.wilson(0.0, count).high), "at least a hundredth of the range"
    assert statistics.p_differs(statistics.paired_scores([gain] * count)) == pytest.approx(2 * 0.5**count)


def test_a_skewed_sample_has_a_wider_interval_than_student_s():
    # 6 of 60 are 100, the others 5: mean 14.5, standard error 28.7 / sqrt 60 = 3.71, and t of 59 degrees is 2.00
    values = {str(number): [100.0 if number % 10 == 0 else 5.0] for number in range(60)}
    low, high = statistics.cluster_bootstrap(values, 4000, 1, Interval(-100.0, 100.0)).ci95
    assert high - low > 1.1 * 2 * 2.00 * 3.71 and (low + high) / 2 == pytest.approx(14.5)


def test_for_many_clusters_student_s_interval_takes_over_without_a_jump(monkeypatch: pytest.MonkeyPatch):
    values = {str(number): [float(number * number % 97)] for number in range(401)}
    student = statistics.cluster_bootstrap(values, 10_000, 1, RANGE).ci95
    monkeypatch.setattr(statistics, "_MANY", 401)
    assert statistics.cluster_bootstrap(values, 10_000, 1, RANGE).ci95 == pytest.approx(student, abs=0.1)


def test_a_bootstrap_depends_on_the_seed_and_not_on_the_order_of_the_rows():
    values = {name: [float(number * number % 97)] for number, name in enumerate("abcdefghijkl")}
    turned = dict(reversed(values.items()))
    first = statistics.cluster_bootstrap(values, 500, 7, RANGE)
    assert first == statistics.cluster_bootstrap(turned, 500, 7, RANGE)
    assert first.ci95 != statistics.cluster_bootstrap(values, 500, 8, RANGE).ci95


def test_repeats_of_the_same_answer_add_no_certainty():
    once = {str(number): [float(number)] for number in range(20)}
    five_times = {name: values * 5 for name, values in once.items()}
    as_if_independent = {f"{name}/{repeat}": values for name, values in once.items() for repeat in range(5)}
    width = {
        name: interval.high - interval.low
        for name, interval in (
            ("once", statistics.cluster_bootstrap(once, 2000, 3, RANGE).ci95),
            ("five", statistics.cluster_bootstrap(five_times, 2000, 3, RANGE).ci95),
            ("wrong", statistics.cluster_bootstrap(as_if_independent, 2000, 3, RANGE).ci95),
        )
    }
    assert width["five"] == pytest.approx(width["once"])
    assert width["wrong"] < 0.6 * width["once"]


def test_one_persona_says_nothing_about_the_spread():
    assert statistics.cluster_bootstrap({"a": [40.0, 60.0]}, 100, 1, RANGE).ci95 == RANGE


@pytest.mark.parametrize("function", [lambda c: statistics.cluster_bootstrap(c, 100, 1, RANGE), statistics.proportion])
def test_no_values_is_an_error_and_not_a_zero(function):
    with pytest.raises(ValueError, match="no values"):
        function({"a": []})


@pytest.mark.parametrize(
    ("share", "n", "low", "high"),
    [
        (0.5, 100, 0.40383, 0.59617),
        (0.0, 10, 0.0, 0.27753),  # nothing seen in ten: up to 28% is possible
        (1.0, 10, 0.72247, 1.0),
        (0.42, 100, 0.32800, 0.51788),
    ],
)
def test_wilson_interval(share: float, n: int, low: float, high: float):
    assert statistics.wilson(share, n) == pytest.approx((low, high), abs=2e-4)


def test_repeats_that_always_agree_count_once_in_a_proportion():
    once = {str(number): [float(number < 12)] for number in range(30)}
    thrice = {name: values * 3 for name, values in once.items()}
    share = statistics.proportion(thrice)
    assert (share.value, share.n) == (0.4, 30)
    few = 30 * 90 / 89 * 29 / 30 * (1.959964 / 2.045230) ** 2  # n - 1 for N - 1, and Student's for the normal quantile
    assert share.ci95 == pytest.approx(statistics.wilson(0.4, few), abs=1e-3)
    assert statistics.proportion(once).ci95 == statistics.wilson(0.4, 30), "one value per cluster: Wilson's own"


def test_repeats_that_have_nothing_in_common_count_each():
    mixed = {str(number): [1.0, 0.0, float(number % 2)] for number in range(30)}
    assert statistics.proportion(mixed).ci95 == pytest.approx(statistics.wilson(0.5, 90 * (1.959964 / 2.045230) ** 2), abs=1e-3)


@pytest.mark.parametrize("repeats", [2, 49])
def test_personas_of_one_and_the_same_share_are_few_too(repeats: int):
    """One in 49 of 49 is not 1 in floating point: that is no spread. Four personas: t of three degrees is 3.182."""
    found = statistics.proportion({name: [1.0] + [0.0] * (repeats - 1) for name in "abcd"})
    worth = 4 * repeats * (1.959964 / 3.182446) ** 2
    assert found.ci95 == pytest.approx(statistics.wilson(1 / repeats, worth), abs=1e-4)


def test_a_share_of_nobody_is_judged_by_the_personas():
    assert statistics.proportion({str(number): [0.0] * 3 for number in range(10)}).ci95 == statistics.wilson(0.0, 10)


def test_an_estimate_needs_an_interval():
    with pytest.raises(ValueError, match="a lower and an upper end, got nan and 1"):
        statistics.Estimated(0.5, Interval(math.nan, 1.0), 3)


def test_a_few_differences_are_judged_by_student_s_t():
    few = statistics.paired_scores([1.0, 2.0, 3.0])  # t = 2 / (1 / sqrt 3) = 3.46 with 2 degrees
    assert statistics.p_differs(few) == pytest.approx(0.0742, abs=1e-4)
    assert statistics.p_above(few, 0.0) == pytest.approx(0.0371, abs=1e-4)
    assert statistics.p_differs(statistics.Paired(1.96, 1.0, 9)) == pytest.approx(0.05, abs=1e-4)  # without degrees: normal
    assert [statistics.p_differs(statistics.Paired(d, 0.0, 3)) for d in (0.0, 0.1)] == [1, 0.25], "the sign test: 2 x 1/8"


def test_paired_differences_average_repeats_and_skip_lonely_personas():
    tuned = {"a": [80.0, 60.0], "b": [50.0], "only tuned": [99.0], "failed in base": [9.0]}
    base = {"a": [10.0], "b": [20.0, 40.0], "only base": [1.0], "failed in base": []}
    assert statistics.paired_differences(tuned, base) == {"a": 60.0, "b": 20.0}
    assert statistics.paired_mean({"a": 60.0, "b": 20.0}, 100, 1, Interval(-100, 100)).value == 40.0


def test_paired_scores_are_mean_and_standard_error():
    paired = statistics.paired_scores([1.0, 2.0, 3.0])
    assert (paired.difference, paired.n) == (2.0, 3)
    assert paired.standard_error == pytest.approx(1 / math.sqrt(3))  # sd 1


def test_paired_shares_add_half_an_observation_to_each_cell():
    # 100 items, 10 wins, 4 losses: (10 - 4) / 102 and sqrt((15/102 - (6/102)^2) / 102)
    paired = statistics.paired_shares([1.0] * 10 + [-1.0] * 4 + [0.0] * 86)
    assert paired.difference == pytest.approx(6 / 102)
    assert paired.standard_error == pytest.approx(math.sqrt((15 / 102 - (6 / 102) ** 2) / 102))


def test_shares_that_never_flip_still_have_an_error():
    assert statistics.paired_shares([0.0] * 247).standard_error == pytest.approx(1 / 249)
    assert statistics.paired_scores([0.0] * 247).standard_error == 0.0
    low, high = statistics.paired_share_interval([0.0] * 247)
    assert (low, high) == pytest.approx((-1.96 / 249, 1.96 / 249), abs=1e-4)


def test_a_paired_share_of_one_persona_has_the_whole_range():
    assert statistics.paired_share_interval([1.0]) == (-1.0, 1.0)


@pytest.mark.parametrize("function", [statistics.paired_scores, statistics.paired_shares])
def test_one_item_cannot_be_compared(function):
    with pytest.raises(ValueError, match="at least 2 items, got 1"):
        function([0.5])


def test_a_difference_of_shares_beyond_one_is_refused():
    with pytest.raises(ValueError, match=r"-1\.\.1"):
        statistics.paired_shares([0.0, 1.5])


def test_minimum_detectable_difference():
    # one-sided, items that flip with chance d: 2.487 sqrt(d / n)
    assert statistics.minimum_detectable_difference(math.sqrt(0.05), 500, two_sided=False) == pytest.approx(0.0249, abs=1e-4)
    # two-sided: (1.960 + 0.842) 43.6 / sqrt(597) = 5.0 points
    assert statistics.minimum_detectable_difference(43.6, 597) == pytest.approx(5.0, abs=0.01)
    # three items, t of two degrees: (4.303 + 1.061) / sqrt 3
    assert statistics.detectable(statistics.paired_scores([1.0, 2.0, 3.0])) == pytest.approx(5.364 / math.sqrt(3), abs=0.001)
    assert statistics.detectable(statistics.paired_scores([1.0] * 3)) is None, "no spread was seen"
    with pytest.raises(ValueError, match="positive"):
        statistics.minimum_detectable_difference(1.0, 0)


def test_the_clustered_interval_covers_the_truth_about_as_often_as_it_says():
    """300 samples of 30 personas x 3 correlated repeats; per-dialogue resampling of the same data covers far less."""
    random = np.random.default_rng(5)
    covered = {"clustered": 0, "as if independent": 0}
    for trial in range(300):
        personas = random.normal(50, 20, size=30)[:, None] + random.normal(0, 5, size=(30, 3))
        clustered = {str(number): list(row) for number, row in enumerate(personas)}
        independent = {f"{number}/{k}": [value] for number, row in enumerate(personas) for k, value in enumerate(row)}
        for name, clusters in (("clustered", clustered), ("as if independent", independent)):
            low, high = statistics.cluster_bootstrap(clusters, 300, trial, Interval(-200, 300)).ci95
            covered[name] += low <= 50 <= high
    assert 0.89 <= covered["clustered"] / 300 <= 0.98
    assert covered["as if independent"] / 300 < 0.8
