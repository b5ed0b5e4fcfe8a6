"""The error rates of verdicts on few simulated studies: python -m benchmarks.verdicts prints the whole table."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.interval_coverage import by_chance
from benchmarks.verdicts import FAMILY, World, family_errs, rates

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


def test_a_whole_table_errs_no_more_than_one_row_may():
    errs = family_errs(World(2.0, 0.1, seeds=3), families=40, random=np.random.default_rng(7))
    assert max(errs) <= 0.05 + 2 * by_chance(0.05, 40)
