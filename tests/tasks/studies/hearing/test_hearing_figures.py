"""Order, calibration and traps of small inputs, by hand."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from rlver.tasks.studies.hearing.figures import (
    NO_TRAP,
    Taken,
    by_trap,
    by_value,
    calibration,
    expected_calibration_error,
    order,
    told_apart,
)


def test_pairs_are_of_one_message_and_far_enough_apart() -> None:
    taken = [Taken("a", 2, 5), Taken("a", 1, 6), Taken("a", -1, -3), Taken("b", 2, 0), Taken("b", 0, 0), Taken("c", -2, 9)]
    one, two, three = (order(taken, apart) for apart in (1, 2, 3))
    assert (one.pairs, two.pairs, three.pairs) == (4, 3, 1)
    assert one.better is not None and one.better.value == 2 / 4  # (2, 1) is the wrong way round, b is a tie
    assert two.better is not None and two.better.value == pytest.approx(2 / 3) and two.better.n == 2
    assert three.better is not None and three.better.value == 1
    assert (one.same, two.same, three.same) == (1 / 4, pytest.approx(1 / 3), 0)


def test_without_pairs_there_is_no_share() -> None:
    nothing = order([Taken("a", 2, 1), Taken("b", -2, 1)], 1)
    assert nothing.better is None and nothing.pairs == 0 and nothing.same == 0


def test_calibration_counts_what_is_labelled_in_each_tenth() -> None:
    bins = calibration(
        ("abcdefg"[number], *claim)
        for number, claim in enumerate([(0.0, False), (0.08, False), (0.1, True), (0.3, False), (0.98, True), (1.0, True), (1.0, False)])
    )
    assert [(round(one.low, 1), round(one.high, 1), one.n) for one in bins] == [(0.0, 0.1, 2), (0.1, 0.2, 1), (0.3, 0.4, 1), (0.9, 1.0, 3)]
    assert [one.labelled.value for one in bins] == [0, 1, 0, pytest.approx(2 / 3)]
    assert bins[0].mean == pytest.approx(0.04) and bins[3].mean == pytest.approx(2.98 / 3)
    error = (2 * 0.04 + 1 * 0.9 + 1 * 0.3 + 3 * abs(2.98 / 3 - 2 / 3)) / 7
    assert expected_calibration_error(bins) == pytest.approx(error)


def test_who_is_right_as_often_as_said_is_calibrated() -> None:
    claims = [(str(number), 0.24, number < 6) for number in range(25)]
    assert expected_calibration_error(calibration(claims)) == pytest.approx(0)


def test_claims_of_one_situation_are_not_independent() -> None:
    apart, together = ([(str(number % situations), 0.5, number % 4 == 0) for number in range(40)] for situations in (40, 4))
    (wide,), (narrow,) = calibration(together), calibration(apart)
    assert wide.labelled.value == narrow.labelled.value == 0.25
    assert wide.labelled.ci95.high - wide.labelled.ci95.low > 1.5 * (narrow.labelled.ci95.high - narrow.labelled.ci95.low)


def test_what_is_so_is_told_from_what_is_not_by_rank() -> None:
    claims = [("a", 0.9, True), ("b", 0.5, True), ("a", 0.5, False), ("c", 0.1, False)]
    area = told_apart(claims)
    assert area is not None and area.value == pytest.approx((1 + 0.75) / 2) and area.n == 3
    assert told_apart([("a", 0.5, True)]) is None and told_apart([("a", 0.5, False)]) is None


def test_the_interval_knows_that_both_sides_are_drawn() -> None:
    """150 replies that are not so say less than the 339 that are: taken as fixed, as they once were, 70% of the intervals held the area."""
    random = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        claims = [*((f"p{n}", x, True) for n, x in enumerate(random.normal(0.29, 1, 339).tolist()))]
        claims += [(f"q{n}", x, False) for n, x in enumerate(random.normal(0, 1, 150).tolist())]
        area = told_apart(claims)
        assert area is not None
        held += area.ci95.low <= NormalDist().cdf(0.29 / 2**0.5) <= area.ci95.high
    assert 180 <= held <= 199


def test_what_comes_from_one_situation_counts_as_one() -> None:
    claims = [(str(n % 10), (n * 7 % 10) / 10, n % 3 == 0) for n in range(30)]
    alone, repeated = told_apart(claims), told_apart([*claims, *claims, *claims])
    assert alone is not None and repeated is not None
    assert (alone.value, *alone.ci95) == pytest.approx((repeated.value, *repeated.ci95)) and alone.n == repeated.n == 10


def test_traps_have_their_mean_change_and_those_without_come_last() -> None:
    taken = [Taken("a", -2, -6, "irony"), Taken("b", -1, 2, "irony"), Taken("a", 2, 8, "subtle"), Taken("a", 1, 4)]
    irony, subtle, none = by_trap(taken, 50, seed=1)
    assert (irony.name, subtle.name, none.name) == ("irony", "subtle", NO_TRAP)
    assert (irony.change.value, irony.falls.value, irony.value) == (-2, 0.5, -1.5)
    assert (subtle.change.value, none.change.value) == (8, 4)


def test_values_go_from_the_best_to_the_worst() -> None:
    taken = [Taken("a", -2, -6), Taken("b", 2, 8), Taken("c", 2, -2), Taken("c", 0, 0)]
    best, nothing, worst = by_value(taken, 50, seed=1)
    assert (best.name, nothing.name, worst.name) == ("+2", "+0", "-2")
    assert (best.replies, best.value, best.rises.value, best.falls.value, best.change.value) == (2, 2, 0.5, 0.5, 3)
    assert (nothing.rises.value, nothing.falls.value) == (0, 0)
