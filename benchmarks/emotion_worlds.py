"""Simulated final emotions whose true mean is known, for the benchmarks of intervals.

They look like those of a weak base (most dialogues lost, a few won), of the recorded SAGE dialogues (two heaps), or of a trained policy.
A persona has a level of its own, so its repeats are alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from rlver.components.scoring.statistics import Interval

ALIKE = 0.64  # variance of a persona's level, beside the 1 of a dialogue

Random = np.random.Generator
# Final emotion by rank: shares of dialogues, and where they end.
WORLDS = {
    "weak": ((0.0, 0.70, 0.90, 0.96, 1.0), (0, 9, 69, 99, 100)),
    "two heaps": ((0.0, 0.40, 0.70, 0.88, 1.0), (0, 9, 80, 99, 100)),
    "trained": ((0.0, 0.10, 0.30, 0.70, 1.0), (0, 30, 70, 99, 100)),
}


@dataclass(frozen=True)
class Covered:
    """One experiment: what was estimated, its interval and the truth."""

    interval: Interval
    truth: float

    @property
    def holds(self) -> bool:
        return self.interval.low <= self.truth <= self.interval.high


Experiment = Callable[[Random], Covered]


def emotions(world: str, levels: np.ndarray, repeats: int, random: Random) -> np.ndarray:
    """Final emotions [personas, repeats] of a policy in users with these levels."""
    drawn = levels[:, None] + random.normal(0, 1, (len(levels), repeats))
    shares, ends = WORLDS[world]
    ranks = ndtr(drawn / math.sqrt(1 + ALIKE))
    values = np.interp(ranks, shares, ends)
    return np.where(ranks >= shares[-2], ends[-1], values)  # the best share ends at the ceiling


def true_mean(world: str) -> float:
    shares, ends = WORLDS[world]
    inner = sum((b - a) * (low + high) / 2 for a, b, low, high in zip(shares[:-2], shares[1:-1], ends[:-2], ends[1:-1], strict=True))
    return inner + (shares[-1] - shares[-2]) * ends[-1]


def by_persona(values: np.ndarray) -> dict[str, list[float]]:
    return {f"{number:04d}": row.tolist() for number, row in enumerate(values)}
