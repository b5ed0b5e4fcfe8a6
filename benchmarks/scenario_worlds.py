"""Worlds in which the personas of one scenario are alike, for benchmarks/interval_coverage.py: 100 personas of 16 scenarios, three dialogues.

The ICC is the share of what a persona makes of a policy (of its level, or of its chance of a success) that belongs to its scenario. All
intervals are those of components/scoring/units.py. A world of nearly equal values stands beside: all but few of them are the same.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaincinv, ndtr

from benchmarks.emotion_worlds import ALIKE, Covered, Experiment, Random, by_persona, emotions, true_mean
from rlver.components.scoring import statistics
from rlver.components.scoring.statistics import Interval
from rlver.components.scoring.units import Units

PERSONAS, SCENARIOS, REPEATS = 100, 16, 3
ICCS = (0.0, 0.1, 0.3)
SAMPLES = 2000
_WHOSE = np.arange(PERSONAS) % SCENARIOS
_UNITS = Units({f"{number:04d}": f"s{number % SCENARIOS}" for number in range(PERSONAS)})
_ALIKE_REPEATS = 0.3  # correlation of the repeats of a persona, of shares


def _levels(icc: float, random: Random) -> np.ndarray:
    """(PERSONAS,) standard normal, correlated by `icc` within a scenario."""
    return math.sqrt(icc) * random.normal(0, 1, SCENARIOS)[_WHOSE] + math.sqrt(1 - icc) * random.normal(0, 1, PERSONAS)


def mean_of_scenarios(world: str, icc: float) -> Experiment:
    def experiment(random: Random) -> Covered:
        values = emotions(world, math.sqrt(ALIKE) * _levels(icc, random), REPEATS, random)
        return Covered(_UNITS.mean(by_persona(values), SAMPLES, 7, Interval(0.0, 100.0)).ci95, true_mean(world))

    return experiment


def difference_of_scenarios(base: str, tuned: str, icc: float) -> Experiment:
    """Half of a persona's level counts for both policies, and half for one alone."""

    def experiment(random: Random) -> Covered:
        shared = _levels(icc, random)
        sides = [
            by_persona(emotions(world, math.sqrt(ALIKE / 2) * (shared + _levels(icc, random)), REPEATS, random)) for world in (tuned, base)
        ]
        differences = statistics.paired_differences(*sides)
        return Covered(_UNITS.paired_mean(differences, SAMPLES, 7, Interval(-100.0, 100.0)).ci95, true_mean(tuned) - true_mean(base))

    return experiment


def _hits(share: float, icc: float, random: Random) -> dict[str, list[float]]:
    odds = (1 - _ALIKE_REPEATS) / _ALIKE_REPEATS
    chances = betaincinv(share * odds, (1 - share) * odds, ndtr(_levels(icc, random)))
    return by_persona((random.random((PERSONAS, REPEATS)) < chances[:, None]).astype(float))


def share_of_scenarios(low: float, high: float, icc: float) -> Experiment:
    def experiment(random: Random) -> Covered:
        share = random.uniform(low, high)
        return Covered(_UNITS.share(_hits(share, icc, random)).ci95, share)

    return experiment


def paired_share_of_scenarios(base: tuple[float, float], tuned: tuple[float, float], icc: float) -> Experiment:
    def experiment(random: Random) -> Covered:
        shares = random.uniform(*tuned), random.uniform(*base)
        differences = statistics.paired_differences(*(_hits(share, icc, random) for share in shares))
        return Covered(_UNITS.paired_share_interval(differences), shares[0] - shares[1])

    return experiment


def nearly_equal(personas: int) -> Experiment:
    """One in 5 to 100 personas ends at 0, all others at 100: mostly all are equal, and a bootstrap would be sure."""

    def experiment(random: Random) -> Covered:
        lost = random.uniform(0.01, 0.2)
        values = 100.0 * (random.random((personas, 1)) >= lost)
        return Covered(statistics.cluster_bootstrap(by_persona(values), SAMPLES, 7, Interval(0.0, 100.0)).ci95, 100 * (1 - lost))

    return experiment


def nearly_equal_differences(personas: int) -> Experiment:
    """One in 5 to 100 personas loses what all others gain, 1 to 100 points: mostly all differences are equal, and the sign test is sure."""

    def experiment(random: Random) -> Covered:
        lost, gain = random.uniform(0.01, 0.2), random.uniform(1, 100)
        values = np.where(random.random(personas) < lost, -gain, gain)
        differences = {f"{number:04d}": float(value) for number, value in enumerate(values)}
        return Covered(statistics.paired_mean(differences, SAMPLES, 7, Interval(-100.0, 100.0)).ci95, gain * (1 - 2 * lost))

    return experiment


def intervals(rare: tuple[float, float], common: tuple[float, float]) -> dict[str, Experiment]:
    """Of every kind, by name; * marks kinds that may cover more."""
    found: dict[str, Experiment] = {}
    for icc in ICCS:
        within = f"{PERSONAS} x {REPEATS} of {SCENARIOS} scenarios, ICC {icc:g}"
        found[f"mean, weak, {within}"] = mean_of_scenarios("weak", icc)
        found[f"mean, trained, {within}"] = mean_of_scenarios("trained", icc)
        found[f"paired difference, weak to trained, {within}"] = difference_of_scenarios("weak", "trained", icc)
        found[f"share, rare, {within}"] = share_of_scenarios(*rare, icc)
        found[f"share, common, {within}"] = share_of_scenarios(*common, icc)
        found[f"paired share, common to common, {within}"] = paired_share_of_scenarios(common, common, icc)
        found[f"paired share, rare to rare*, {within}"] = paired_share_of_scenarios(rare, rare, icc)
    found |= {f"mean, nearly equal*, {personas} x 1": nearly_equal(personas) for personas in (5, 8, 12)}
    return found | {f"paired difference, nearly equal*, {personas} x 1": nearly_equal_differences(personas) for personas in (6, 8, 12)}
