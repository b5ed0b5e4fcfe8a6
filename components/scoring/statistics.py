"""Intervals and paired differences: pure functions of numbers. How often the intervals hold is measured: docs/statistics.md.

The unit of resampling is the *cluster*: a persona with all its repeats, or one benchmark item. An interval over dialogues would be too narrow. A bootstrap collapses to a point when all values are equal; therefore
0/1 quantities use closed forms that do not (Wilson for one share, Agresti-Min for a paired difference).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import stdtr, stdtrit

T = TypeVar("T")

_FEW = 5  # clusters: below them most draws repeat one another, and Student's interval is wide as it should be
_SURE = 6  # equal differences: 2 x 0.5^6 is below 5%
_ROUNDING = 1e-12  # of their size: what rounding leaves between equal values
_MANY = 400  # clusters: beyond them, Student's interval and the bootstrap's are the same for every purpose, and the first is free


class Interval(NamedTuple):
    """Lower and upper end of a two-sided confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Estimated:
    """A number and its two-sided 95% interval; there is no estimate without one. Raises ValueError for an interval that is none."""

    value: float
    ci95: Interval
    n: int  # clusters behind it

    def __post_init__(self) -> None:
        if not self.ci95.low <= self.ci95.high:
            raise ValueError(f"an interval needs a lower and an upper end, got {self.ci95.low} and {self.ci95.high}")


def by_cluster(values: Iterable[tuple[str, T]]) -> dict[str, list[T]]:
    """Values by their cluster, in the order in which they come."""
    clusters: dict[str, list[T]] = {}
    for cluster, value in values:
        clusters.setdefault(cluster, []).append(value)
    return clusters


def cluster_bootstrap(
    clusters: Mapping[str, Sequence[float]], samples: int, seed: int, whole_range: Interval, of_differences: bool = False
) -> Estimated:
    """Mean over all values, with a symmetric studentised bootstrap interval over clusters (Hall 1988; clusters resampled whole).

    The percentile interval is too short below 30 clusters and for skewed values, this one is not: each resampled mean is measured in
    its own standard error. Below 5 clusters, and above 400, it is Student's interval; of equal clusters, that of `of_equals`. Clusters are
    taken in sorted order, so the result does not depend on the order of the rows. Ends outside `whole_range` are cut; a single cluster
    says nothing about the spread and has all of it. `of_differences`: the values are paired differences. Raises ValueError without values.
    """
    sums, counts = _sums_and_counts(clusters)
    value, n = float(sums.sum() / counts.sum()), len(counts)
    if n == 1:
        return Estimated(value, whole_range, 1)
    error = beyond_rounding(math.sqrt(n / (n - 1) * float(((sums - value * counts) ** 2).sum())) / float(counts.sum()), value)
    if error == 0:
        return Estimated(value, of_equals(value, n, whole_range, n if of_differences else 0), n)
    student = float(stdtrit(n - 1, 0.975))
    half = error * (student if n < _FEW or n > _MANY else _studentised(sums, counts, value, student, samples, seed))
    return Estimated(value, Interval(max(value - half, whole_range.low), min(value + half, whole_range.high)), n)


def _sums_and_counts(clusters: Mapping[str, Sequence[float]]) -> tuple[np.ndarray, np.ndarray]:
    """Of every cluster that has values, by name. Raises ValueError where none has."""
    kept = [clusters[name] for name in sorted(clusters) if clusters[name]]
    if not kept:
        raise ValueError("no values to average")
    return np.array([math.fsum(values) for values in kept]), np.array([len(values) for values in kept], dtype=float)


def beyond_rounding(error: float, mean: float) -> float:
    """A standard error; 0 where it is but rounding, since the values are equal."""
    return error if error > _ROUNDING * abs(mean) else 0.0


def of_equals(value: float, n: float, whole_range: Interval, differences: int = 0) -> Interval:
    """The interval where `n` clusters agree: Wilson's upper end for 0 of n may have been missed, at either end of the range.

    Where the range has no end, the value's own size stands for it, and at least 1. So it does for both ends where six or more units of
    paired `differences` agree, since the sign test is sure of them: at least a hundredth of the range's upper end, or .01 without one.
    """
    missed = wilson(0.0, n).high
    low, high = whole_range
    is_sure = differences >= _SURE
    reach = max(abs(value), (high / 100 if math.isfinite(high) else 0.01) if is_sure else 1.0)
    if is_sure:
        low, high = -math.inf, math.inf
    low, high = (end if math.isfinite(end) else value + side * reach for end, side in ((low, -1), (high, 1)))
    return Interval(max(whole_range.low, value - missed * (value - low)), min(whole_range.high, value + missed * (high - value)))


def _studentised(sums: np.ndarray, counts: np.ndarray, value: float, student: float, samples: int, seed: int) -> float:
    """The 95% point of |resampled mean - mean| / standard error of the resampled mean.

    Where too many draws hold equal clusters only, and so have no error, it is not finite: then it is Student's.
    """
    n, residuals = len(sums), sums - value * counts
    moments = np.column_stack([counts, residuals, counts * counts, residuals * counts, residuals * residuals])
    totals, of_residuals, cc, rc, rr = (_times_drawn(n, samples, seed).astype(float) @ moments).T
    gaps = of_residuals / totals
    errors = np.sqrt(np.maximum(rr - 2 * gaps * rc + gaps * gaps * cc, 0.0) * n / (n - 1)) / totals
    has_error = errors > 1e-6 * float(np.abs(residuals / counts).max())
    ratios = np.where(has_error, np.abs(gaps) / np.where(has_error, errors, 1.0), np.inf)
    point = float(np.quantile(ratios, 0.95, method="nearest"))
    return point if math.isfinite(point) else student


@lru_cache(maxsize=16)
def _times_drawn(size: int, samples: int, seed: int) -> np.ndarray:
    """How often each of `size` clusters is in each of `samples` draws of as many with replacement."""
    return times_drawn(np.random.default_rng(seed), size, samples).astype(np.uint8 if size < 256 else np.uint16)


def times_drawn(random: np.random.Generator, clusters: int, samples: int) -> np.ndarray:
    """(samples, clusters): how often each cluster is in a draw of as many with replacement."""
    return random.multinomial(clusters, np.full(clusters, 1 / clusters), size=samples)


def middle(draws: np.ndarray) -> Interval:
    """The 95% in the middle of the draws."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return Interval(float(low), float(high))


def pearson(x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Pearson's r over the last axis, where a value counts `weights` times; NaN where a side does not vary."""
    weights = np.ones_like(x, dtype=float) if weights is None else weights
    total = weights.sum(axis=-1, keepdims=True)
    x, y = (values - (weights * values).sum(axis=-1, keepdims=True) / total for values in (x, y))
    return over_spread((weights * x * y).sum(axis=-1), np.sqrt((weights * x * x).sum(axis=-1) * (weights * y * y).sum(axis=-1)))


def pearson_of_sums(sums: np.ndarray) -> np.ndarray:
    """The same of rows (n, sum of x, of y, of x², of y², of xy), which add up cluster by cluster."""
    n, x, y, xx, yy, xy = sums.T
    spread = (xx - x * x / n) * (yy - y * y / n)
    return np.asarray((xy - x * y / n) / np.sqrt(np.where(spread > 1e-9, spread, np.nan)))


def over_spread(products: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """A correlation; NaN where there is no spread, and so no order."""
    return np.where(spread > 1e-9, products / np.maximum(spread, 1e-9), np.nan)


def proportion(clusters: Mapping[str, Sequence[float]]) -> Estimated:
    """Share of ones among 0/1 values, with Wilson's interval for the effective number of independent values.

    With one value per cluster that is their number. With repeats it follows from how alike the values of a cluster are, corrected for
    the few clusters that this is judged by (Korn and Graubard 1998); where all values are the same it is the number of clusters.
    One cluster has the whole range.
    """
    sums, counts = _sums_and_counts(clusters)
    share, n = float(sums.sum() / counts.sum()), len(counts)
    return Estimated(share, wilson(share, _effective_number(sums, counts, share)) if n > 1 else Interval(0.0, 1.0), n)


def _effective_number(sums: np.ndarray, counts: np.ndarray, share: float) -> float:
    n, total = len(counts), float(counts.sum())
    if total == n or share in (0.0, 1.0):
        return n
    variance = n / (n - 1) * float(((sums - share * counts) ** 2).sum()) / total**2
    as_if_independent = share * (1 - share) / (total - 1)
    worth = total if beyond_rounding(math.sqrt(variance), share) == 0 else min(total, as_if_independent / variance * total)
    correction = (NormalDist().inv_cdf(0.975) / float(stdtrit(n - 1, 0.975))) ** 2
    return max(1.0, worth * correction)


def wilson(share: float, n: float) -> Interval:
    """Wilson's 95% score interval of a share seen in `n` independent trials; an effective number need not be whole."""
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
    return cluster_bootstrap({name: [value] for name, value in differences.items()}, samples, seed, whole_range, of_differences=True)


@dataclass(frozen=True)
class Paired:
    """A mean paired difference with its standard error, the input of a test against Student's t with so many degrees of freedom."""

    difference: float
    standard_error: float
    n: int
    freedom: float = math.inf  # infinite: the normal distribution


def paired_scores(differences: Sequence[float]) -> Paired:
    """Mean and standard error (sample standard deviation over root n) of per-item differences of any size."""
    n = len(differences)
    if n < 2:
        raise ValueError(f"a paired comparison needs at least 2 items, got {n}")
    mean = math.fsum(differences) / n
    variance = math.fsum((difference - mean) ** 2 for difference in differences) / (n - 1)
    return Paired(mean, beyond_rounding(math.sqrt(variance / n), mean), n, n - 1)


def paired_shares(differences: Sequence[float], worth: float | None = None) -> Paired:
    """The same for differences of shares, each in -1..1, after Agresti and Min (2005).

    Their half observation in each cell of the 2 x 2 table adds two items: one unchanged, half a win and half a loss. So the standard
    error is never 0, not even when no item flips. `worth` is the number of independent items that tell as much (default: all are).
    """
    if len(differences) < 2:
        raise ValueError(f"a paired comparison needs at least 2 items, got {len(differences)}")
    if any(abs(difference) > 1 for difference in differences):
        raise ValueError("differences of shares must lie in -1..1")
    worth = worth or len(differences)
    n, each = worth + 2, worth / len(differences)
    mean = each * math.fsum(differences) / n
    second_moment = (each * math.fsum(difference * difference for difference in differences) + 1) / n
    return Paired(mean, math.sqrt((second_moment - mean * mean) / n), len(differences))


def paired_share_interval(differences: Sequence[float]) -> Interval:
    """Two-sided 95% interval of a paired difference of shares."""
    return Interval(-1.0, 1.0) if len(differences) < 2 else share_interval(paired_shares(differences))


def share_interval(paired: Paired) -> Interval:
    """The same of `paired_shares`."""
    half = NormalDist().inv_cdf(0.975) * paired.standard_error
    return Interval(max(-1.0, paired.difference - half), min(1.0, paired.difference + half))


def quantile(share: float, freedom: float) -> float:
    """Of Student's t; with infinite degrees of freedom, of the normal distribution."""
    return NormalDist().inv_cdf(share) if math.isinf(freedom) else float(stdtrit(freedom, share))


def p_above(paired: Paired, bound: float) -> float:
    """One-sided p of H0 "the true difference is at most `bound`"; of equal differences, which have no error, that of the sign test."""
    if paired.standard_error == 0:
        return 0.5 if paired.difference == bound else 0.5**paired.n if paired.difference > bound else 1.0
    return _tail((paired.difference - bound) / paired.standard_error, paired.freedom)


def p_differs(paired: Paired) -> float:
    """Two-sided p of H0 "there is no difference"; of equal differences, which have no error, that of the sign test."""
    if paired.standard_error == 0:
        return min(1.0, 2 * 0.5**paired.n) if paired.difference else 1.0
    return min(1.0, 2 * _tail(abs(paired.difference) / paired.standard_error, paired.freedom))


def _tail(t: float, freedom: float) -> float:
    return 1 - NormalDist().cdf(t) if math.isinf(freedom) else float(stdtr(freedom, -t))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjustment: smallest p times k, next times k - 1, ..., kept monotone and at most 1."""
    adjusted: dict[str, float] = {}
    running = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: (p_values[name], name))):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = running
    return adjusted


def minimum_detectable_difference(standard_deviation: float, n: int, two_sided: bool = True, freedom: float = math.inf) -> float:
    """Smallest true paired difference that a 5% test finds with 80% power, given the standard deviation of the differences.

    With `freedom` the test is Student's: the sum of both quantiles of t is a good approximation, and never inside the interval.
    For 0/1 items of which a share d flips, the standard deviation is sqrt(d); one-sided this is 2.487 sqrt(d / n).
    """
    if n < 1 or standard_deviation < 0:
        raise ValueError("n must be positive and the standard deviation not negative")
    return (quantile(0.975 if two_sided else 0.95, freedom) + quantile(0.8, freedom)) * standard_deviation / math.sqrt(n)


def detectable(paired: Paired, two_sided: bool = True) -> float | None:
    """The minimum detectable difference at 80% power of items that spread like these; None where equal ones tell of no spread."""
    if paired.standard_error == 0:
        return None
    return minimum_detectable_difference(paired.standard_error * math.sqrt(paired.n), paired.n, two_sided=two_sided, freedom=paired.freedom)
