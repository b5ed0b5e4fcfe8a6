"""Whether people prefer what the simulated user felt better with: one point per pair.

x is what people said of a pair, the mean over them of preference (-1 for a, 0, +1 for b) times confidence (1..3); y is the final emotion of
b minus that of a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from components.evaluation.blind.resampling import by_persona, grouped
from components.evaluation.statistics import Estimated, Interval, wilson


class Point(NamedTuple):
    """A pair: `preferred` in -3..3, `emotion` in -100..100."""

    persona_id: str
    preferred: float
    emotion: float


@dataclass(frozen=True)
class EmotionAgreement:
    """Estimates over `pairs`. None: undefined, as where all emotions differ alike."""

    pairs: int
    sign_pairs: int  # of them, where people lean to a side and the emotions differ
    sign: Estimated | None  # people lean to the side with the better emotion
    point_biserial: Estimated | None  # Pearson between the side people lean to and the emotion difference, where they lean to one
    spearman: Estimated | None  # between how strongly people lean and the emotion difference


def emotion_agreement(points: Sequence[Point], samples: int, seed: int) -> EmotionAgreement | None:
    """With 95% intervals over personas. None without points."""
    if not points:
        return None
    preferred = np.array([point.preferred for point in points])
    emotion = np.array([point.emotion for point in points])
    rows = grouped([point.persona_id for point in points])
    decided = {persona: kept for persona, members in rows.items() if (kept := [row for row in members if preferred[row]])}

    def correlated(x: np.ndarray, of: dict[str, list[int]], ranks: bool) -> Estimated | None:
        def statistic(chosen: np.ndarray) -> float | None:
            sides = (x[chosen], emotion[chosen])
            return pearson(*(average_ranks(side) for side in sides)) if ranks else pearson(*sides)

        return by_persona(of, statistic, samples, seed, Interval(-1.0, 1.0))

    clear = [row for row in range(len(points)) if preferred[row] and emotion[row]]
    return EmotionAgreement(
        pairs=len(points),
        sign_pairs=len(clear),
        sign=_sign(preferred[clear] * emotion[clear] > 0, len({points[row].persona_id for row in clear})) if clear else None,
        point_biserial=correlated(np.sign(preferred), decided, ranks=False),
        spearman=correlated(preferred, rows, ranks=True),
    )


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """None when either side does not vary."""
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / scale if scale > 1e-12 else None


def average_ranks(values: np.ndarray) -> np.ndarray:
    """1 for the smallest; equal values share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])


def _sign(same: np.ndarray, personas: int) -> Estimated:
    """Wilson's interval with as many trials as personas: careful (too wide) for repeats."""
    share = float(same.mean())
    return Estimated(share, wilson(share, personas), personas)
