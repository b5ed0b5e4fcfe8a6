"""The error rates of verdicts on few simulated studies: python -m benchmarks.verdicts prints the whole table."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.interval_coverage import by_chance
from benchmarks.verdicts import World, rates

STUDIES = 200


@pytest.mark.parametrize(("seed_sd", "icc"), [(0.0, 0.0), (4.0, 0.3)])
def test_verdicts_err_no_more_than_they_say(seed_sd: float, icc: float):
    rate = rates(World(seed_sd, icc, seeds=3), STUDIES, np.random.default_rng(7))
    slack = by_chance(0.05, STUDIES)
    assert rate.covers >= 0.93 - slack
    assert max(rate.errs, rate.equivalence_errs) <= 0.05 + slack


def test_an_interval_over_personas_alone_takes_the_luck_of_a_training_for_an_effect():
    assert rates(World(4.0, 0.1, seeds=3), STUDIES, np.random.default_rng(7)).errs_by_personas > 0.2
