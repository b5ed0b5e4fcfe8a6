"""Boosted regression trees as plain arrays: learned elsewhere, stored without pickle, summed here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Trees:
    """All nodes of all trees, one after the other. A leaf has itself as both children; `root` is where each tree begins."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]  # at or below: left
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]  # of leaves; 0 elsewhere
    root: NDArray[np.int32]
    depth: int
    baseline: float

    def predict(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """(rows): the sum over trees. `rows` has shape (rows, features) and no missing values."""
        node = np.broadcast_to(self.root, (len(rows), len(self.root)))
        number = np.arange(len(rows))[:, None]
        for _ in range(self.depth):
            goes_left = rows[number, self.feature[node]] <= self.threshold[node]
            node = np.where(goes_left, self.left[node], self.right[node])
        return np.asarray(self.baseline + self.value[node].sum(axis=1))
