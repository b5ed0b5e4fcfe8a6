"""Bootstraps over people and personas at once: an answer belongs to one of each, and neither sees only one of the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from components.evaluation.statistics import Estimated, Interval, paired_share_interval

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
    personas, raters = sorted({one.persona_id for one in rated}), sorted({one.rater for one in rated})
    sums, counts = np.zeros((len(personas), len(raters))), np.zeros((len(personas), len(raters)))
    row = {persona: number for number, persona in enumerate(personas)}
    column = {rater: number for number, rater in enumerate(raters)}
    for one in rated:
        sums[row[one.persona_id], column[one.rater]] += one.value
        counts[row[one.persona_id], column[one.rater]] += 1
    value = float(sums.sum() / counts.sum())
    if len(personas) == 1:
        return Estimated(value, Interval(0.0, 1.0), 1)
    closed = paired_share_interval([2 * mean - 1 for mean in sums.sum(axis=1) / counts.sum(axis=1)])
    low, high = _ends(_crossed_means(sums, counts, samples, seed))
    ends = Interval(max(0.0, min(low, (closed.low + 1) / 2)), min(1.0, max(high, (closed.high + 1) / 2)))
    return Estimated(value, ends, len(personas))


def _crossed_means(sums: np.ndarray, counts: np.ndarray, samples: int, seed: int) -> np.ndarray:
    """`samples` weighted means; a draw in which nobody rated anything gives none."""
    random = np.random.default_rng(seed)
    personas, raters = sums.shape
    parts = []
    for first in range(0, samples, ROWS):
        rows = min(ROWS, samples - first)
        of_persona = random.multinomial(personas, np.full(personas, 1 / personas), size=rows)
        of_rater = random.multinomial(raters, np.full(raters, 1 / raters), size=rows)
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
    random = np.random.default_rng(seed)
    drawn = (statistic(np.concatenate([members[i] for i in random.integers(len(members), size=len(members))])) for _ in range(samples))
    kept = np.array([one for one in drawn if one is not None])
    return Estimated(value, _ends(kept) if len(kept) > 1 else whole_range, len(personas))


def grouped(keys: Sequence[str]) -> dict[str, list[int]]:
    """Row numbers by key."""
    rows: dict[str, list[int]] = defaultdict(list)
    for number, key in enumerate(keys):
        rows[key].append(number)
    return rows


def _ends(values: np.ndarray) -> Interval:
    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(float(low), float(high))
