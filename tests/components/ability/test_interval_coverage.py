"""The bars of the statistics, over 1,000 simulated experiments of every kind: intervals hold in 93 to 97%, false alarms are at most 5%."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.emotion_worlds import WORLDS, Covered, Random, emotions, true_mean
from benchmarks.interval_coverage import (
    FALSE_ALARMS,
    INTERVALS,
    alarms,
    by_chance,
    coverage,
    keeps_the_bar,
    verdicts,
)
from rlver.components.ability.noninferiority import ALPHA, LossOutcome
from rlver.components.scoring.statistics import Interval

pytestmark = pytest.mark.no_cover

EXPERIMENTS = 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", INTERVALS)
def test_intervals_hold_as_often_as_they_say(name: str) -> None:
    covered, _ = coverage(INTERVALS[name], EXPERIMENTS, seed=7)
    assert keeps_the_bar(name, covered, EXPERIMENTS), covered


@pytest.mark.slow
@pytest.mark.parametrize("name", FALSE_ALARMS)
def test_false_alarms_are_rare(name: str) -> None:
    assert alarms(FALSE_ALARMS[name], EXPERIMENTS, seed=7) <= ALPHA + by_chance(ALPHA, EXPERIMENTS)


def test_the_check_sees_an_interval_that_is_too_short_and_one_that_is_too_long() -> None:
    def normal(half: float):
        def experiment(random: Random) -> Covered:
            seen = float(random.normal())
            return Covered(Interval(seen - half, seen + half), 0.0)

        return experiment

    covered = {half: coverage(normal(half), EXPERIMENTS, seed=7)[0] for half in (1.6, 1.96, 2.6)}
    assert [keeps_the_bar("mean", covered[half], EXPERIMENTS) for half in (1.6, 1.96, 2.6)] == [False, True, False], covered


@pytest.mark.parametrize("world", WORLDS)
def test_the_truth_of_a_world_is_the_mean_of_what_it_draws(world: str) -> None:
    random = np.random.default_rng(1)
    drawn = emotions(world, random.normal(0, 0.8, 200_000), 1, random)
    assert drawn.mean() == pytest.approx(true_mean(world), abs=0.3) and drawn.min() >= 0 and (drawn == 100).mean() > 0.03


@pytest.mark.parametrize(
    ("loss", "items", "margin", "expected"),
    [
        (0.06, 5000, 0.05, LossOutcome.FAIL),  # standard error .34 points: at least 5.4 lost
        (0.06, 247, 0.02, LossOutcome.FAIL),  # 1.5 points: at least 3.5 lost
        (0.06, 247, 0.05, LossOutcome.INCONCLUSIVE),  # 6 lost and at least 5 lost cannot be told apart by 247 items
        (0.0, 247, 0.05, LossOutcome.PASS),
        (0.0, 5000, 0.05, LossOutcome.PASS),
        (0.06, 20, 0.05, LossOutcome.INCONCLUSIVE),
        (0.0, 20, 0.05, LossOutcome.INCONCLUSIVE),
    ],
)
def test_planted_losses_get_the_verdict_that_the_items_can_carry(loss: float, items: int, margin: float, expected: LossOutcome) -> None:
    """Of 200 measurements at least three in four say so."""
    random = np.random.default_rng(2)
    said = [verdicts(loss, 1, items, margin, random, flips=0.0) for _ in range(200)]
    assert sum(outcome == {expected} for outcome in said) >= 150, said.count({expected})
