"""What is measured of a hearing user beside its finding of acts (tasks/studies/acts/detection.py): order, calibration, traps."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from rlver.components.domain.emotion import LARGEST_CHANGE
from rlver.components.scoring.statistics import Estimated, Interval, by_cluster, cluster_bootstrap, of_equals, proportion, quantile

BINS = 10
NO_TRAP = "none"
_CHANGES, _SHARES = Interval(-LARGEST_CHANGE, LARGEST_CHANGE), Interval(0, 1)


@dataclass(frozen=True)
class Taken:
    """How a labelled reply to the message `user` was taken: its value by the labels, and the change of the user's emotion."""

    user: str
    value: int
    change: int
    trap: str | None = None


@dataclass(frozen=True)
class Order:
    """Of all two replies to one message that the labels put so far from each other: how the user orders them."""

    pairs: int
    better: Estimated | None  # share in which the better-labelled one gets more; clusters are messages
    same: float  # share in which both get the same


@dataclass(frozen=True)
class Bin:
    """Probabilities of one tenth of 0..1, and how often what they speak of is labelled."""

    low: float
    high: float
    n: int
    mean: float
    labelled: Estimated


@dataclass(frozen=True)
class Group:
    """Replies with the same label: how many, their mean value by the labels, and how they are taken."""

    name: str
    replies: int
    value: float
    rises: Estimated
    falls: Estimated
    change: Estimated


def order(taken: Sequence[Taken], apart: int) -> Order:
    by_message = by_cluster((one.user, one) for one in taken)
    ordered = (sorted(two, key=lambda one: one.value) for replies in by_message.values() for two in combinations(replies, 2))
    compared = [(worse, better) for worse, better in ordered if better.value - worse.value >= apart]
    if not compared:
        return Order(0, None, 0.0)
    wins = by_cluster((worse.user, float(better.change > worse.change)) for worse, better in compared)
    return Order(len(compared), proportion(wins), sum(worse.change == better.change for worse, better in compared) / len(compared))


def told_apart(claims: Iterable[tuple[str, float, bool]]) -> Estimated | None:
    """Area under the ROC curve of claims (cluster, probability, whether it is so): how often one that is so has the higher probability than one that is
    not, ties by half. None where all or none are. The interval is over clusters, from which both sides come (Obuchowski 1997)."""
    every = list(claims)
    sides = {side: sorted(probability for _, probability, is_so in every if is_so == side) for side in (True, False)}
    if not all(sides.values()):
        return None

    def place(probability: float, is_so: bool) -> float:
        """The share of the other side that it stands on the right side of."""
        others = sides[not is_so]
        below = (bisect_left(others, probability) + bisect_right(others, probability)) / 2 / len(others)
        return below if is_so else 1 - below

    area = sum(place(probability, True) for probability in sides[True]) / len(sides[True])
    moved = by_cluster((cluster, (place(probability, is_so) - area) / len(sides[is_so])) for cluster, probability, is_so in every)
    clusters = len(moved)
    if clusters == 1:
        return Estimated(area, _SHARES, 1)
    half = quantile(0.975, clusters - 1) * math.sqrt(clusters / (clusters - 1) * math.fsum(math.fsum(one) ** 2 for one in moved.values()))
    around = Interval(max(0.0, area - half), min(1.0, area + half)) if half > 1e-9 else of_equals(area, clusters, _SHARES)
    return Estimated(area, around, clusters)


def calibration(claims: Iterable[tuple[str, float, bool]]) -> list[Bin]:
    """The tenths into which any probability falls, of claims (cluster, probability, whether it is labelled); 1 falls into the last."""
    tenths: dict[int, list[tuple[str, float, bool]]] = {}
    for claim in claims:
        tenths.setdefault(min(BINS - 1, int(claim[1] * BINS + 1e-9)), []).append(claim)
    return [_bin(tenth, tenths[tenth]) for tenth in sorted(tenths)]


def _bin(tenth: int, claims: Sequence[tuple[str, float, bool]]) -> Bin:
    share = proportion(by_cluster((cluster, float(labelled)) for cluster, _, labelled in claims))
    return Bin(tenth / BINS, (tenth + 1) / BINS, len(claims), sum(probability for _, probability, _ in claims) / len(claims), share)


def expected_calibration_error(bins: Sequence[Bin]) -> float:
    """The mean distance of mean probability and share, weighted by the claims in each tenth (Naeini et al. 2015)."""
    return sum(one.n * abs(one.mean - one.labelled.value) for one in bins) / sum(one.n for one in bins)


def by_trap(taken: Sequence[Taken], samples: int, seed: int) -> list[Group]:
    """One for each trap that occurs, by name; last the replies without."""
    names = sorted({one.trap or NO_TRAP for one in taken}, key=lambda name: (name == NO_TRAP, name))
    return [group(name, [one for one in taken if (one.trap or NO_TRAP) == name], samples, seed) for name in names]


def by_value(taken: Sequence[Taken], samples: int, seed: int) -> list[Group]:
    """One for each value that occurs, the best first."""
    values = sorted({one.value for one in taken}, reverse=True)
    return [group(f"{value:+d}", [one for one in taken if one.value == value], samples, seed) for value in values]


def group(name: str, taken: Sequence[Taken], samples: int, seed: int) -> Group:
    """`taken`, of which there is at least one, under this name."""
    changes, rises, falls = (
        by_cluster((one.user, of(one.change)) for one in taken)
        for of in (float, lambda change: float(change > 0), lambda change: float(change < 0))
    )
    value = sum(one.value for one in taken) / len(taken)
    mean = cluster_bootstrap(changes, samples, seed, _CHANGES)
    return Group(name, len(taken), value, proportion(rises), proportion(falls), mean)
