"""How far people agree who judged the same pair.

Bootstraps over people and personas at once: an answer belongs to one of each, and neither sees only one of the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rlver.components.scoring.statistics import Estimated, Interval, by_cluster, middle, paired_share_interval, times_drawn, wilson
from rlver.tasks.studies.blind.answers import Preference

_PLACE: dict[Preference, int] = {"a": 0, "tie": 1, "b": 2}


@dataclass(frozen=True)
class RaterAgreement:
    """Of `pairs` that two or more people judged. None: undefined, as where everybody always says the same."""

    pairs: int
    raters: int
    raw: Estimated  # two people, drawn from those who judged a pair, say the same
    direction: Estimated | None  # the same, among those of them who both chose a side
    alpha: Estimated | None  # Krippendorff's, nominal: 1 perfect, 0 chance


def agreement(
    judged: Mapping[str, Mapping[str, Preference]], persona_of: Mapping[str, str], samples: int, seed: int
) -> RaterAgreement | None:
    """`judged`: by pair, then by rater. None when no pair was judged twice.

    Intervals by a bootstrap over personas, never narrower than Wilson's for as many trials as personas: people who always agree agree by
    luck now and then. Personas of whose pairs no two people chose a side say nothing about the direction. Alpha's are moved with those of
    the raw agreement.
    """
    shared = {pair: of_pair for pair, of_pair in sorted(judged.items()) if len(of_pair) > 1}
    if not shared:
        return None
    tables = np.array([coincidences(list(of_pair.values())) for of_pair in shared.values()])
    rows = by_cluster((persona_of[pair], row) for row, pair in enumerate(shared))
    with_sides = {persona: kept for persona, of in rows.items() if (kept := [row for row in of if sides_of(tables[row]).any()])}

    def estimate(statistic: Callable[[np.ndarray], float | None], low: float, of_personas: Mapping[str, Sequence[int]]) -> Estimated | None:
        return by_persona(of_personas, lambda chosen: statistic(tables[chosen].sum(axis=0)), samples, seed, Interval(low, 1.0))

    raw, direction = _not_narrower(estimate(_same, 0.0, rows)), _not_narrower(estimate(_same_side, 0.0, with_sides))
    assert raw is not None
    alpha, disagreement = estimate(krippendorff_alpha, -1.0, rows), expected_disagreement(tables.sum(axis=0))
    if alpha is not None:
        low, high = (1 - (1 - end) / disagreement for end in raw.ci95)
        alpha = Estimated(alpha.value, Interval(max(-1.0, min(alpha.ci95.low, low)), max(alpha.ci95.high, high)), alpha.n)
    raters = {rater for of_pair in shared.values() for rater in of_pair}
    return RaterAgreement(len(shared), len(raters), raw, direction, alpha)


def coincidences(preferences: Sequence[Preference]) -> np.ndarray:
    """(3, 3): every ordered two of the m >= 2 preferences, each weighing 1/(m - 1), so the table sums to m (Krippendorff 2004)."""
    counts = Counter(_PLACE[one] for one in preferences)
    table = np.array([[counts[row] * (counts[column] - (row == column)) for column in range(3)] for row in range(3)], dtype=float)
    return table / (len(preferences) - 1)


def krippendorff_alpha(table: np.ndarray) -> float | None:
    """1 - observed disagreement / disagreement expected by chance; None when only one value occurs."""
    expected = expected_disagreement(table)
    return None if expected == 0 else 1 - (1 - _same(table)) / expected


def expected_disagreement(table: np.ndarray) -> float:
    """Share of two values, drawn from all of them without putting back, that differ."""
    n, totals = table.sum(), table.sum(axis=0)
    return float((n * n - (totals**2).sum()) / (n * (n - 1)))


def _same(table: np.ndarray) -> float:
    return float(np.trace(table) / table.sum())


def sides_of(table: np.ndarray) -> np.ndarray:
    """(2, 2): the part of the table in which both chose a side."""
    return table[np.ix_([0, 2], [0, 2])]


def _same_side(table: np.ndarray) -> float | None:
    sides = sides_of(table)
    return _same(sides) if sides.any() else None


def _not_narrower(share: Estimated | None) -> Estimated | None:
    if share is None:
        return None
    closed = wilson(share.value, share.n)
    return Estimated(share.value, Interval(min(share.ci95.low, closed.low), max(share.ci95.high, closed.high)), share.n)


ROWS = 2_000  # resamplings at once; bounds memory, never the result
LEAST = 4  # personas


class Rated(NamedTuple):
    """One number, in 0..1, that a person said of a persona."""

    persona_id: str
    rater: str
    value: float


def share(rated: Sequence[Rated], samples: int, seed: int) -> Estimated:
    """Mean of values in 0..1 with its 95% interval, for other personas and, where there are several, other people.

    Personas and raters are resampled independently and an answer weighs the product of both (Owen 2007, the pigeonhole bootstrap); it is
    never narrower than Agresti and Min's interval of the personas' means, because a bootstrap of equal values has no width.
    `n` counts personas. Raises ValueError without values.
    """
    if not rated:
        raise ValueError("no values to average")
    (personas, row), (raters, column) = (
        np.unique(names, return_inverse=True) for names in ([one.persona_id for one in rated], [one.rater for one in rated])
    )
    sums, counts = np.zeros((len(personas), len(raters))), np.zeros((len(personas), len(raters)))
    np.add.at(sums, (row, column), [one.value for one in rated])
    np.add.at(counts, (row, column), 1)
    value = float(sums.sum() / counts.sum())
    if len(personas) == 1:
        return Estimated(value, Interval(0.0, 1.0), 1)
    closed = paired_share_interval([2 * mean - 1 for mean in sums.sum(axis=1) / counts.sum(axis=1)])
    low, high = middle(_crossed_means(sums, counts, samples, seed))
    ends = Interval(max(0.0, min(low, (closed.low + 1) / 2)), min(1.0, max(high, (closed.high + 1) / 2)))
    return Estimated(value, ends, len(personas))


def _crossed_means(sums: np.ndarray, counts: np.ndarray, samples: int, seed: int) -> np.ndarray:
    """`samples` weighted means; a draw in which nobody rated anything gives none."""
    random = np.random.default_rng(seed)
    personas, raters = sums.shape
    parts = []
    for first in range(0, samples, ROWS):
        rows = min(ROWS, samples - first)
        of_persona, of_rater = times_drawn(random, personas, rows), times_drawn(random, raters, rows)
        total = ((of_persona @ counts) * of_rater).sum(axis=1)
        part = ((of_persona @ sums) * of_rater).sum(axis=1)
        parts.append(part[total > 0] / total[total > 0])
    return np.concatenate(parts)


def by_persona(
    rows: Mapping[str, Sequence[int]], statistic: Callable[[np.ndarray], float | None], samples: int, seed: int, whole_range: Interval
) -> Estimated | None:
    """Any statistic of row numbers, with a percentile interval over personas, whose rows are drawn together.

    None where it has no value on all rows. Fewer than four personas say nothing about the spread. Draws without a value are left out.
    """
    personas = sorted(rows)
    members = [np.array(rows[persona]) for persona in personas]
    value = statistic(np.concatenate(members)) if members else None
    if value is None:
        return None
    if len(personas) < LEAST:
        return Estimated(value, whole_range, len(personas))
    every, of_each = np.concatenate(members), [len(one) for one in members]
    draws = times_drawn(np.random.default_rng(seed), len(members), samples)
    drawn = (statistic(np.repeat(every, np.repeat(times, of_each))) for times in draws)
    kept = np.array([one for one in drawn if one is not None])
    return Estimated(value, middle(kept) if len(kept) > 1 else whole_range, len(personas))
