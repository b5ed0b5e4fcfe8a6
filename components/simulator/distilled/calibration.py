"""From an expected change to a change that users give: on the recorded grid, as often as recorded, and how sure its sign is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Calibration:
    """Ridge and trees shrink towards the mean; taking the grid by quantiles gives the changes their recorded spread back."""

    grid: tuple[int, ...]  # ascending
    thresholds: NDArray[np.float64]  # (grid - 1), ascending; from a threshold on, the next value
    expected: NDArray[np.float64]  # (points), ascending
    positive: NDArray[np.float64]  # (points): the share of positive changes where that much was expected
    spread: NDArray[np.float64]  # (points): root mean square error of the expected change there

    @property
    def mildest(self) -> int:
        """The change that is least bad, of those for the worse; the worst of all if none is."""
        return max((value for value in self.grid if value < 0), default=self.grid[0])

    def change(self, expected: float) -> int:
        return self.grid[int(np.searchsorted(self.thresholds, expected, side="right"))]

    def changes(self, expected: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.array(self.grid)[np.searchsorted(self.thresholds, expected, side="right")]

    def chance_positive(self, expected: float) -> float:
        return float(np.interp(expected, self.expected, self.positive))

    def error(self, expected: float) -> float:
        """Points by which the expected change is wrong, as a root mean square."""
        return float(np.interp(expected, self.expected, self.spread))
