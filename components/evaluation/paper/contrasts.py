"""A claim as a number: a weighted sum of policies, positive where the claim holds, with a 95% interval.

Two kinds of interval. Final emotions are paired by persona: the interval says how the result would vary with other users. Learning curves
keep only means, so what is read off them is paired by seed: with one seed there is an estimate and no interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from components.evaluation.statistics import Estimated, Interval, paired_mean, quantile

Emotions = Mapping[str, Sequence[float]]  # by persona


class Term(NamedTuple):
    """One kind of policy in a contrast: its weight, and its values by seed."""

    weight: float
    by_seed: Mapping[int, Emotions]


class Contrast(NamedTuple):
    """The estimate and the seeds it rests on: those with which every kind was trained."""

    estimate: Estimated
    seeds: tuple[int, ...]


def persona_contrast(terms: Sequence[Term], samples: int, seed: int) -> Contrast | None:
    """Mean over personas of the weighted sum, with a bootstrap interval over personas.

    Within a persona repeats are averaged, then seeds. Only seeds that all terms share, and personas scored in all of them, count; None
    when there are none. Weights must sum to 0, so that the user's level cancels.
    """
    assert math.isclose(sum(term.weight for term in terms), 0.0, abs_tol=1e-9)
    seeds = _shared(terms)
    personas = set.intersection(*(set(term.by_seed[s]) for term in terms for s in seeds)) if seeds else set()
    if not personas:
        return None
    differences = {
        persona: math.fsum(term.weight * _mean(term.by_seed[s][persona]) for term in terms for s in seeds) / len(seeds)
        for persona in personas
    }
    return Contrast(paired_mean(differences, samples, seed, _whole(terms)), seeds)


def seed_contrast(higher: Mapping[int, float], lower: Mapping[int, float]) -> Contrast | None:
    """Mean over shared seeds of `higher` minus `lower`, both in -100..100, with Student's interval; one seed says nothing of the spread."""
    seeds = tuple(sorted(higher.keys() & lower.keys()))
    if not seeds:
        return None
    differences = [higher[seed] - lower[seed] for seed in seeds]
    mean, n = _mean(differences), len(differences)
    if n == 1:
        return Contrast(Estimated(mean, Interval(-200.0, 200.0), 1), seeds)
    spread = math.sqrt(math.fsum((difference - mean) ** 2 for difference in differences) / (n - 1) / n)
    half = quantile(0.975, n - 1) * spread
    return Contrast(Estimated(mean, Interval(mean - half, mean + half), n), seeds)


def peak(emotions: Sequence[float]) -> float:
    """The best point of a curve; points that were not measured (NaN) do not count."""
    return max(emotion for emotion in emotions if not math.isnan(emotion))


def fall(emotions: Sequence[float]) -> float:
    """The last point minus the best: 0 for a run that ends at its best, negative for one that lost."""
    measured = [emotion for emotion in emotions if not math.isnan(emotion)]
    return measured[-1] - max(measured)


def _shared(terms: Sequence[Term]) -> tuple[int, ...]:
    return tuple(sorted(set.intersection(*(set(term.by_seed) for term in terms))))


def _whole(terms: Sequence[Term]) -> Interval:
    widest = 50.0 * sum(abs(term.weight) for term in terms)
    return Interval(-widest, widest)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
