"""Intervals, paired differences and non-inferiority: pure functions of numbers.

The unit of resampling is the *cluster*: a persona with all its repeats, or one benchmark item. Dialogues of the same persona are not
independent, so an interval over dialogues would be too narrow. Plain-bootstrap intervals collapse to a point when all values are equal;
therefore 0/1 quantities use closed forms that do not (Wilson for one share, Agresti-Min for a paired difference).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

_CELLS = 4_000_000  # resampling weights drawn at once; bounds memory, never the result


class Interval(NamedTuple):
    """Lower and upper end of a two-sided confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Estimated:
    """A number and its two-sided 95% interval; there is no estimate without one."""

    value: float
    ci95: Interval
    n: int  # clusters behind it


def cluster_bootstrap(clusters: Mapping[str, Sequence[float]], samples: int, seed: int, whole_range: Interval) -> Estimated:
    """Mean over all values, with a percentile bootstrap interval over clusters (Efron; clusters resampled whole).

    Clusters are taken in sorted order, so the result does not depend on the order of the rows. A single cluster says nothing about the
    spread: its interval is `whole_range`. Raises ValueError without values.
    """
    kept = [(name, clusters[name]) for name in sorted(clusters) if clusters[name]]
    if not kept:
        raise ValueError("no values to average")
    sums = np.array([math.fsum(values) for _, values in kept])
    counts = np.array([len(values) for _, values in kept], dtype=float)
    value = float(sums.sum() / counts.sum())
    if len(kept) == 1:
        return Estimated(value, whole_range, 1)
    means = _resampled_means(sums, counts, samples, seed)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimated(value, Interval(float(low), float(high)), len(kept))


def _resampled_means(sums: np.ndarray, counts: np.ndarray, samples: int, seed: int) -> np.ndarray:
    """`samples` means, each over as many clusters as there are, drawn with replacement."""
    size = len(sums)
    random = np.random.default_rng(seed)
    parts = []
    for first in range(0, samples, max(1, _CELLS // size)):
        rows = min(max(1, _CELLS // size), samples - first)
        times_drawn = random.multinomial(size, np.full(size, 1 / size), size=rows)
        parts.append((times_drawn @ sums) / (times_drawn @ counts))
    return np.concatenate(parts)


def proportion(clusters: Mapping[str, Sequence[float]]) -> Estimated:
    """Share of ones among 0/1 values, with Wilson's interval.

    The sample size of the interval is the number of clusters: exact for one dialogue per persona, careful (too wide) for repeats.
    """
    values = [value for name in sorted(clusters) for value in clusters[name]]
    if not values:
        raise ValueError("no values to count")
    share = math.fsum(values) / len(values)
    n = sum(1 for members in clusters.values() if members)
    return Estimated(share, wilson(share, n), n)


def wilson(share: float, n: int) -> Interval:
    """Wilson's 95% score interval of a share seen in `n` independent trials."""
    z = NormalDist().inv_cdf(0.975)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def paired_differences(tuned: Mapping[str, Sequence[float]], base: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Mean of `tuned` minus mean of `base` per cluster, for the clusters that have values on both sides; repeats are averaged first."""
    return {
        name: math.fsum(tuned[name]) / len(tuned[name]) - math.fsum(base[name]) / len(base[name])
        for name in sorted(tuned)
        if tuned[name] and base.get(name)
    }


def paired_mean(differences: Mapping[str, float], samples: int, seed: int, whole_range: Interval) -> Estimated:
    """Mean paired difference with a bootstrap interval over clusters."""
    return cluster_bootstrap({name: [difference] for name, difference in differences.items()}, samples, seed, whole_range)


@dataclass(frozen=True)
class Paired:
    """A mean paired difference with its standard error, the input of a test."""

    difference: float
    standard_error: float
    n: int


def paired_scores(differences: Sequence[float]) -> Paired:
    """Mean and standard error (sample standard deviation over root n) of per-item differences of any size."""
    n = len(differences)
    if n < 2:
        raise ValueError(f"a paired comparison needs at least 2 items, got {n}")
    mean = math.fsum(differences) / n
    variance = math.fsum((difference - mean) ** 2 for difference in differences) / (n - 1)
    return Paired(mean, math.sqrt(variance / n), n)


def paired_shares(differences: Sequence[float]) -> Paired:
    """The same for differences of shares, each in -1..1, after Agresti and Min (2005).

    Their half observation in each cell of the 2 x 2 table adds two items: one unchanged, half a win and half a loss. So the standard
    error is never 0, not even when no item flips.
    """
    if len(differences) < 2:
        raise ValueError(f"a paired comparison needs at least 2 items, got {len(differences)}")
    if any(abs(difference) > 1 for difference in differences):
        raise ValueError("differences of shares must lie in -1..1")
    n = len(differences) + 2
    mean = math.fsum(differences) / n
    second_moment = (math.fsum(difference * difference for difference in differences) + 1) / n
    return Paired(mean, math.sqrt((second_moment - mean * mean) / n), len(differences))


def paired_share_interval(differences: Sequence[float]) -> Interval:
    """Two-sided 95% interval of a paired difference of shares."""
    if len(differences) < 2:
        return Interval(-1.0, 1.0)
    paired = paired_shares(differences)
    half = NormalDist().inv_cdf(0.975) * paired.standard_error
    return Interval(max(-1.0, paired.difference - half), min(1.0, paired.difference + half))


def minimum_detectable_difference(standard_deviation: float, n: int, power: float = 0.8, two_sided: bool = True) -> float:
    """Smallest true paired difference that a 5% test finds with this power, given the standard deviation of the differences.

    For 0/1 items of which a share d flips, the standard deviation is sqrt(d); one-sided this is 2.487 sqrt(d / n).
    """
    if n < 1 or standard_deviation < 0:
        raise ValueError("n must be positive and the standard deviation not negative")
    normal = NormalDist()
    return (normal.inv_cdf(0.975 if two_sided else 0.95) + normal.inv_cdf(power)) * standard_deviation / math.sqrt(n)
