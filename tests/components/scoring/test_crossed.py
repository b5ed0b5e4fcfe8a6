"""The arithmetic of the crossed model, on tables that can be checked by hand; its error rates are simulated in benchmarks/verdicts.py."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rlver.components.scoring.crossed import Difference, Side, Verdict, crossed, p_equivalent, verdicts
from rlver.components.scoring.statistics import Interval, Paired

SCENARIOS = {"a": "x", "b": "y"}


def flat(*levels: float) -> dict[int, dict[str, list[float]]]:
    """A policy a level, the same with both personas."""
    return {seed: {"a": [level], "b": [level]} for seed, level in enumerate(levels)}


def test_what_seeds_differ_by_is_in_the_interval():
    """50, 52, 54 against 40, 42, 44: scenarios do not differ, so the variance is 4/3 + 4/3 with 2 + 2 degrees of freedom."""
    found = crossed([Side(1, flat(50, 52, 54)), Side(-1, flat(40, 42, 44))], SCENARIOS)
    assert found is not None and found.test is not None and (found.value, found.seeds, found.scenarios) == (10, 3, 2)
    assert (found.test.standard_error, found.test.freedom) == (pytest.approx(math.sqrt(8 / 3)), pytest.approx(4))
    half = 2.776445 * math.sqrt(8 / 3)
    assert found.estimated(Interval(-100, 100)).ci95 == pytest.approx((10 - half, 10 + half), abs=1e-4)


def test_personas_of_one_scenario_count_once():
    """Differences of 10 and 20 by scenario: standard error 5 with 1 degree of freedom, however many personas stand behind each."""
    higher = {"a": [50.0], "b": [60.0]} | {"a2": [50.0], "b2": [60.0]}
    lower = {persona: [40.0] for persona in higher}
    found = crossed([Side(1, {1: higher, 2: higher}), Side(-1, {1: lower, 2: lower})], {"a": "x", "a2": "x", "b": "y", "b2": "y"})
    assert found is not None and found.test is not None and found.value == 15
    assert (found.test.standard_error, found.test.freedom) == (pytest.approx(5), 1)


def test_seeds_need_not_be_shared_and_a_base_is_one_model():
    found = crossed([Side(1, flat(50, 54)), Side(-1, {7: {"a": [40], "b": [40]}}, is_trained=False)], SCENARIOS)
    assert found is not None and found.test is not None and found.value == 12
    assert (found.test.standard_error, found.test.freedom) == (pytest.approx(2), pytest.approx(1))


def test_one_seed_decides_nothing():
    found = crossed([Side(1, flat(90)), Side(-1, flat(10))], SCENARIOS)
    assert found is not None and found.value == 80 and found.test is None
    assert tuple(found.estimated(Interval(-100, 100)).ci95) == (-100, 100)
    assert verdicts({"row": found}) == {"row": Verdict.UNKNOWN}


def test_policies_that_all_end_alike_have_an_interval_with_width():
    found = crossed([Side(1, flat(100, 100, 100)), Side(-1, flat(95, 95, 95))], SCENARIOS)
    assert found is not None and found.test is not None and found.test.standard_error == 0
    estimated = found.estimated(Interval(-100, 100))
    assert estimated.ci95.low < estimated.value == 5 < estimated.ci95.high


@pytest.mark.parametrize("whole", [Interval(-100, 100), Interval(-80, 20)])
def test_equal_differences_are_sure_from_six_scenarios_on(whole: Interval):
    """The sign test: 2 x 0.5^5 is .0625 of five."""
    five, six = (Difference(5, Paired(5, 0, scenarios), 3, scenarios).estimated(whole).ci95 for scenarios in (5, 6))
    assert five.low < 0 and six == pytest.approx((5 - 5 * 0.3903, 5 + 5 * 0.3903), abs=1e-3)


def test_without_a_persona_in_common_there_is_no_difference():
    assert crossed([Side(1, {1: {"a": [1]}}), Side(-1, {1: {"b": [1]}})], {}) is None
    assert crossed([Side(1, {}), Side(-1, flat(1))], {}) is None


def difference(value: float, error: float) -> Difference:
    return Difference(value, Paired(value, error, 16), 3, 16)


def test_equivalent_is_shown_and_unknown_is_not():
    """Margin 5, z of one side 1.645: 0 with an error of 2 is 2.5 errors inside; with one of 4 only 1.25."""
    rows = {"up": difference(9, 2), "down": difference(-9, 2), "same": difference(0, 2)}
    assert verdicts(rows) == {"up": Verdict.HIGHER, "down": Verdict.LOWER, "same": Verdict.EQUIVALENT}
    assert verdicts({"wide": difference(0, 4), "none": None}) == {"wide": Verdict.UNKNOWN, "none": Verdict.UNKNOWN}
    assert p_equivalent(Paired(3, 2, 16), 5) == pytest.approx(1 - 0.841345, abs=1e-5), "the nearer bound decides: 1 error away"
    assert verdicts({"narrow": replace(rows["same"], margin=2.5)}) == {"narrow": Verdict.UNKNOWN}, "each row has its own margin"


def test_the_rows_of_a_table_are_one_family():
    """2.1 errors is a p of .036: enough alone, not among ten."""
    assert verdicts({"row": difference(4.2, 2)})["row"] == Verdict.HIGHER
    many = {str(number): difference(4.2 if number == 0 else 20, 2 if number == 0 else 20) for number in range(10)}
    assert verdicts(many)["0"] == Verdict.UNKNOWN
