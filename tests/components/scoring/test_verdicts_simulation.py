"""The error rates of verdicts on few simulated studies (python -m benchmarks.verdicts prints the whole table), and the spreads they have."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.interval_coverage import by_chance
from benchmarks.spreads import spreads
from benchmarks.verdicts import FAMILY, PERSONAS, REPEATS, WHO, WHOSE, World, family_errs, rates

pytestmark = pytest.mark.no_cover

STUDIES = 200


@pytest.mark.parametrize(("seed_sd", "icc"), [(0.0, 0.0), (4.0, 0.3)])
def test_verdicts_err_no_more_than_they_say(seed_sd: float, icc: float):
    rate = rates(World(seed_sd, icc, seeds=3), STUDIES, np.random.default_rng(7))
    slack = by_chance(0.05, STUDIES)
    assert 0.93 - slack <= rate.covers <= 0.97 + slack
    assert max(rate.errs, rate.equivalence_errs) <= 0.05 + slack


def test_an_interval_over_personas_alone_takes_the_luck_of_a_training_for_an_effect():
    assert rates(World(4.0, 0.1, seeds=3), STUDIES, np.random.default_rng(7)).errs_by_personas > 0.2


def test_the_table_has_as_many_rows_as_the_paper_run_judges_together():
    """Of final emotions 4, 2, 8, 4, 4 and 4; of learning curves 2 and 2."""
    assert FAMILY == 26 + 4


@pytest.mark.long
def test_a_whole_table_errs_no_more_than_one_row_may():
    errs = family_errs(World(2.0, 0.1, seeds=3), families=40, random=np.random.default_rng(7))
    assert max(errs) <= 0.05 + 2 * by_chance(0.05, 40)


@pytest.mark.parametrize(("persona", "icc"), [(0.0, 0.0), (10.0, 0.0), (10.0, 0.8)])
def test_the_spreads_of_known_policies_are_read_off_their_dialogues(persona: float, icc: float):
    """Two policies of each of 200 studies, whose personas differ as World says; dialogues spread by 18 points."""
    random, found = np.random.default_rng(7), []
    for _ in range(200):
        taste = random.normal(0, persona * (1 - icc) ** 0.5, PERSONAS) + random.normal(0, persona * icc**0.5, 16)[WHOSE]
        tables = [50 + side * taste[:, None] + random.normal(0, 18.0, (PERSONAS, REPEATS)) for side in (0.5, -0.5)]
        found.append(spreads([dict(zip(WHO, table.tolist(), strict=True)) for table in tables], WHO))
    assert np.mean([one.dialogue for one in found]) == pytest.approx(18, abs=0.3)
    assert sum(one.at_most >= persona for one in found) >= 0.9 * len(found), "of nearly 95%"
    if persona:
        assert np.mean([one.persona**2 for one in found]) == pytest.approx(persona**2, rel=0.1)
        assert np.mean([one.icc * one.persona**2 for one in found]) == pytest.approx(icc * persona**2, abs=12)


@pytest.mark.parametrize("policies", [[], [{"p0": [1.0, 2.0], "p1": [2.0, 3.0]}], [{"p0": [1.0], "p1": [2.0]}] * 2])
def test_too_few_policies_or_dialogues_say_nothing_about_spreads(policies: list[dict[str, list[float]]]):
    with pytest.raises(ValueError, match="more than once"):
        spreads(policies, {})


@pytest.mark.parametrize("scenario_of", [{}, dict.fromkeys(WHO, "s")])
def test_without_scenarios_to_compare_their_share_is_unknown(scenario_of: dict[str, str]):
    random = np.random.default_rng(7)
    policies = [dict(zip(WHO, random.normal(50, 18, (PERSONAS, REPEATS)).tolist(), strict=True)) for _ in range(2)]
    assert spreads(policies, scenario_of).icc is None
