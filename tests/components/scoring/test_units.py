"""The unit of an interval: whole scenarios, with the few degrees of freedom that they leave."""

from __future__ import annotations

import math

import pytest

from rlver.components.scoring import statistics
from rlver.components.scoring.statistics import Interval
from rlver.components.scoring.units import Units

RANGE = Interval(-100.0, 100.0)
PERSONAS = [f"p{number}" for number in range(12)]
FOUR = Units({name: f"s{number % 4}" for number, name in enumerate(PERSONAS)})  # three personas a scenario
STORIES = (0.0, 4.0, 10.0, 30.0)  # what a scenario makes of everybody


def of_stories() -> dict[str, float]:
    return {name: STORIES[number % 4] for number, name in enumerate(PERSONAS)}


def test_personas_of_one_story_count_once():
    """Four different values: mean 11, standard deviation 13.32, t of three degrees 3.182."""
    estimated = FOUR.paired_mean(of_stories(), 2000, 7, RANGE)
    half = 3.182 * 13.317 / math.sqrt(4)
    assert estimated.ci95 == pytest.approx((11 - half, 11 + half), abs=0.02) and estimated.n == 4
    test = FOUR.paired_scores(of_stories())
    assert (test.difference, test.standard_error) == (11, pytest.approx(13.317 / 2, abs=1e-3)) and (test.n, test.freedom) == (4, 3)


def test_without_scenarios_persons_are_the_unit():
    values, nobody = of_stories(), Units()
    assert nobody.paired_mean(values, 2000, 7, RANGE) == statistics.paired_mean(values, 2000, 7, RANGE)
    assert nobody.paired_scores(values) == statistics.paired_scores(list(values.values()))
    hits = {name: [float(value > 5)] for name, value in values.items()}
    assert nobody.share(hits) == statistics.proportion(hits)
    assert (nobody.name(values), FOUR.name(values), nobody.count(values), FOUR.count(values)) == ("persona", "scenario", 12, 4)


def test_a_persona_without_a_scenario_is_one_of_its_own():
    assert Units({"a": "s", "b": "s"}).count(["a", "b", "c"]) == 2
    assert Units({"a": "s", "b": "s"}).name(["c"]) == "persona"


def test_a_share_of_which_stories_decide_has_the_interval_of_so_many_stories():
    """Half of the scenarios always and half never: 4 values at 1/2, and fewer for the three degrees of freedom."""
    hits = {name: [float(number % 4 < 2)] for number, name in enumerate(PERSONAS)}
    assert FOUR.share(hits).ci95.low < statistics.wilson(0.5, 4).low < statistics.proportion(hits).ci95.low
    lows = [units.paired_share_interval({name: values[0] for name, values in hits.items()}).low for units in (FOUR, Units())]
    assert lows[0] < 0 < lows[1]


def test_equal_values_count_as_if_a_story_made_them_somewhat_alike():
    """Twelve personas, three a scenario, alike .3: 12 / (1 + 2 x .3) = 7.5 of them; Wilson's end for 0 of 7.5 is .3387."""
    nobody = {name: [0.0] for name in PERSONAS}
    assert FOUR.share(nobody).ci95 == pytest.approx((0, 0.3387), abs=1e-4)
    assert FOUR.mean({name: [100.0] for name in PERSONAS}, 200, 7, Interval(0, 100)).ci95 == pytest.approx((66.13, 100), abs=0.01)
    flat = FOUR.paired_share_interval(dict.fromkeys(PERSONAS, 0.0))
    assert flat == pytest.approx((-1.96 / 9.5, 1.96 / 9.5), abs=1e-3), "Agresti and Min add two items to the 7.5"


def test_equal_values_are_equal_though_some_are_rounded():
    """0.1 + 0.2 is 0.30000000000000004."""
    rounded = {name: [0.1 + 0.2 if number % 2 else 0.3] for number, name in enumerate(PERSONAS)}
    flat = {name: [0.3] for name in PERSONAS}
    mixed, same = (FOUR.mean(values, 200, 7, Interval(0, 1)).ci95 for values in (rounded, flat))
    assert mixed == pytest.approx(same) and same == pytest.approx((0.3 - 0.3387 * 0.3, 0.3 + 0.3387 * 0.7), abs=1e-4)


def test_equal_differences_are_above_zero_from_six_stories_on_as_the_sign_test_says():
    """Twelve personas: p is 2 x 0.5^4 = .125 of four stories, .031 of six. Alike .3, the twelve are worth 7.5 and 9.2 personas."""
    six = Units({name: f"s{number % 6}" for number, name in enumerate(PERSONAS)})
    gains = dict.fromkeys(PERSONAS, 4.0)
    assert [statistics.p_differs(units.paired_scores(gains)) for units in (FOUR, six)] == pytest.approx([0.125, 0.03125])
    assert FOUR.paired_mean(gains, 200, 7, RANGE).ci95 == pytest.approx((4 - 0.3387 * 104, 4 + 0.3387 * 96), abs=0.01)
    missed = statistics.wilson(0, 12 / 1.3).high
    assert six.paired_mean(gains, 200, 7, RANGE).ci95 == pytest.approx((4 - 4 * missed, 4 + 4 * missed))


def test_equal_values_on_a_scale_with_two_sides_may_have_missed_the_other():
    at_the_top = {name: [5.0] for name in PERSONAS}
    assert FOUR.mean(at_the_top, 200, 7, Interval(-5, 5)).ci95 == pytest.approx((5 - 0.3387 * 10, 5), abs=1e-3)


def test_one_story_says_nothing_about_others():
    one = Units(dict.fromkeys(PERSONAS, "s"))
    assert one.paired_mean(of_stories(), 200, 7, RANGE).ci95 == RANGE
    assert one.paired_share_interval(dict.fromkeys(PERSONAS, 0.5)) == (-1, 1)
    with pytest.raises(ValueError, match="at least 2 scenarios, got 1"):
        one.paired_scores(of_stories())


def test_a_share_of_one_story_says_nothing_about_others():
    one = Units({"a": "s", "b": "s", "c": "s"})
    for hits in ([1.0, 1.0, 1.0], [1.0, 0.0, 1.0]):
        values = {name: [hit] for name, hit in zip("abc", hits, strict=True)}
        found = one.share(values), one.linearised_share({name: sum(hits) / 3 for name in "abc"}, 3)
        assert {(each.ci95, each.n) for each in found} == {(Interval(0.0, 1.0), 1)}
        assert Units().share(values).ci95.low > 0 and Units().share(values).n == 3
    assert statistics.proportion({"a": [1.0, 1.0]}).ci95 == (0, 1)
