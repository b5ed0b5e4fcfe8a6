"""Do two appraisers put the same things in the same order? Rank correlations with intervals, personas resampled whole.

Ties count as ties: Spearman's rho is the correlation of mid-ranks, Kendall's is tau-b. Where one side says the same of everything there
is no order to agree about, and the value is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from components.evaluation.statistics import Interval

_CELLS = 2_000_000  # weights held at once; bounds memory, never the result
_WHOLE = Interval(-1.0, 1.0)


@dataclass(frozen=True)
class Agreement:
    """A rank correlation over `n` things and its 95% interval; the whole range where resamples rarely have an order."""

    value: float
    ci95: Interval
    n: int


def over_dialogues(pairs: Mapping[str, Sequence[tuple[float, float]]], samples: int, seed: int) -> Agreement | None:
    """Spearman's rho of (first, second) over all dialogues; keys are personas. None without an order on either side."""
    personas = sorted(name for name in pairs if pairs[name])
    if not personas:
        raise ValueError("there is no dialogue that both have appraised")
    rows = [(index, *pair) for index, name in enumerate(personas) for pair in pairs[name]]
    owner = np.array([row[0] for row in rows])
    first, second = (_classes(np.array([row[side] for row in rows])) for side in (1, 2))
    value = float(_weighted_rho(np.ones((1, len(rows))), first, second)[0])
    if math.isnan(value):
        return None
    drawn = np.concatenate(
        [_weighted_rho(weights[:, owner], first, second) for weights in _draws(len(personas), samples, seed, width=len(rows))]
    )
    return Agreement(value, _interval(drawn), len(rows))


def over_policies(
    first: Mapping[str, Mapping[str, float]], second: Mapping[str, Mapping[str, float]], samples: int, seed: int
) -> tuple[Agreement | None, Agreement | None]:
    """(Spearman's rho, Kendall's tau-b) of the policies' mean emotions. Both arguments: policy -> persona -> emotion.

    Only personas that both have of every policy count. Raises ValueError for fewer than two policies or no such persona.
    """
    policies = sorted(first)
    if len(policies) < 2 or policies != sorted(second):
        raise ValueError(f"an order needs the same two policies or more on both sides, got {', '.join(policies) or 'none'}")
    shared = sorted(set.intersection(*(set(side[policy]) for side in (first, second) for policy in policies)))
    if not shared:
        raise ValueError("no persona was appraised by both in dialogues with every policy")
    tables = [np.array([[side[policy][persona] for policy in policies] for persona in shared]) for side in (first, second)]
    whole = [_orders(table.mean(axis=0, keepdims=True)) for table in tables]
    drawn = [np.concatenate([_orders(weights @ table / len(shared)) for weights in _draws(len(shared), samples, seed)]) for table in tables]
    results = []
    for correlate in (_rho_of_orders, _tau_of_orders):
        value = float(correlate(*whole)[0])
        results.append(None if math.isnan(value) else Agreement(value, _interval(correlate(*drawn)), len(policies)))
    return results[0], results[1]


def _draws(clusters: int, samples: int, seed: int, width: int = 1) -> list[np.ndarray]:
    """How often each cluster is drawn, `samples` rows in all."""
    random = np.random.default_rng(seed)
    rows = max(1, _CELLS // max(clusters, width))
    return [random.multinomial(clusters, np.full(clusters, 1 / clusters), size=min(rows, samples - at)) for at in range(0, samples, rows)]


def _classes(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each value, which of the different values it is (rising); and the same as a table value x class."""
    levels, which = np.unique(values, return_inverse=True)
    return which, np.eye(len(levels))[which]


def _weighted_rho(weights: np.ndarray, first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Spearman's rho where row b counts value i `weights[b, i]` times; NaN without an order."""
    ranks = []
    for which, table in (first, second):
        counts = weights @ table
        ranks.append((np.cumsum(counts, axis=1) - counts / 2)[:, which])
    return _pearson(weights, *ranks)


def _pearson(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    total = weights.sum(axis=1, keepdims=True)
    x, y = (values - (weights * values).sum(axis=1, keepdims=True) / total for values in (x, y))
    spread = np.sqrt((weights * x * x).sum(axis=1) * (weights * y * y).sum(axis=1))
    return _divided((weights * x * y).sum(axis=1), spread)


def _orders(means: np.ndarray) -> np.ndarray:
    """[b, i, j]: +1 where policy i stands above policy j in row b, -1 below, 0 equal."""
    signs: np.ndarray = np.sign(np.round(means[:, :, None] - means[:, None, :], 9))
    return signs


def _rho_of_orders(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Mid-ranks are, but for a constant, half the sums of the signs."""
    return _pearson(np.ones(first.shape[:2]), first.sum(axis=2), second.sum(axis=2))


def _tau_of_orders(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    size = np.sqrt((first**2).sum(axis=(1, 2)) * (second**2).sum(axis=(1, 2)))
    return _divided((first * second).sum(axis=(1, 2)), size)


def _divided(products: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """NaN where there is no spread, and so no order."""
    return np.where(spread > 1e-9, products / np.maximum(spread, 1e-9), np.nan)


def _interval(drawn: np.ndarray) -> Interval:
    """Percentiles of the resamples that have an order; the whole range when fewer than half have one."""
    known = drawn[~np.isnan(drawn)]
    if 2 * len(known) < len(drawn):
        return _WHOLE
    low, high = np.quantile(known, [0.025, 0.975])
    return Interval(float(low), float(high))
