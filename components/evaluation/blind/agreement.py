"""How far people agree who judged the same pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from components.evaluation.blind.answers import Preference
from components.evaluation.blind.resampling import by_persona, grouped
from components.evaluation.statistics import Estimated, Interval, wilson

_PLACE: dict[Preference, int] = {"a": 0, "tie": 1, "b": 2}


@dataclass(frozen=True)
class Agreement:
    """Of `pairs` that two or more people judged. None: undefined, as where everybody always says the same."""

    pairs: int
    raters: int
    raw: Estimated  # two people, drawn from those who judged a pair, say the same
    direction: Estimated | None  # the same, among those of them who both chose a side
    alpha: Estimated | None  # Krippendorff's, nominal: 1 perfect, 0 chance


def agreement(judged: Mapping[str, Mapping[str, Preference]], persona_of: Mapping[str, str], samples: int, seed: int) -> Agreement | None:
    """`judged`: by pair, then by rater. None when no pair was judged twice.

    Intervals by a bootstrap over personas, never narrower than Wilson's for as many trials as personas: people who always agree agree by
    luck now and then. Alpha's are moved with those of the raw agreement.
    """
    shared = {pair: of_pair for pair, of_pair in sorted(judged.items()) if len(of_pair) > 1}
    if not shared:
        return None
    tables = np.array([coincidences(list(of_pair.values())) for of_pair in shared.values()])
    rows = grouped([persona_of[pair] for pair in shared])

    def estimate(statistic: str, low: float) -> Estimated | None:
        of = _STATISTICS[statistic]
        return by_persona(rows, lambda chosen: of(tables[chosen].sum(axis=0)), samples, seed, Interval(low, 1.0))

    raw = _not_narrower(estimate("raw", 0.0))
    assert raw is not None
    alpha, disagreement = estimate("alpha", -1.0), expected_disagreement(tables.sum(axis=0))
    if alpha is not None:
        low, high = (1 - (1 - end) / disagreement for end in raw.ci95)
        alpha = Estimated(alpha.value, Interval(max(-1.0, min(alpha.ci95.low, low)), max(alpha.ci95.high, high)), alpha.n)
    raters = {rater for of_pair in shared.values() for rater in of_pair}
    return Agreement(len(shared), len(raters), raw, _not_narrower(estimate("direction", 0.0)), alpha)


def coincidences(preferences: Sequence[Preference]) -> np.ndarray:
    """(3, 3): every ordered two of the m >= 2 preferences, each weighing 1/(m - 1), so the table sums to m (Krippendorff 2004)."""
    counts = Counter(_PLACE[one] for one in preferences)
    table = np.array([[counts[row] * (counts[column] - (row == column)) for column in range(3)] for row in range(3)], dtype=float)
    return table / (len(preferences) - 1)


def krippendorff_alpha(table: np.ndarray) -> float | None:
    """1 - observed disagreement / disagreement expected by chance; None when only one value occurs."""
    expected = expected_disagreement(table)
    return None if expected == 0 else float(1 - (1 - np.trace(table) / table.sum()) / expected)


def expected_disagreement(table: np.ndarray) -> float:
    """Share of two values, drawn from all of them without putting back, that differ."""
    n, totals = table.sum(), table.sum(axis=0)
    return float((n * n - (totals**2).sum()) / (n * (n - 1)))


def raw_agreement(table: np.ndarray) -> float | None:
    return float(np.trace(table) / table.sum())


def direction_agreement(table: np.ndarray) -> float | None:
    sides = table[np.ix_([0, 2], [0, 2])]
    return float(np.trace(sides) / sides.sum()) if sides.sum() else None


def _not_narrower(share: Estimated | None) -> Estimated | None:
    if share is None:
        return None
    closed = wilson(share.value, share.n)
    return Estimated(share.value, Interval(min(share.ci95.low, closed.low), max(share.ci95.high, closed.high)), share.n)


_STATISTICS = {"raw": raw_agreement, "direction": direction_agreement, "alpha": krippendorff_alpha}
