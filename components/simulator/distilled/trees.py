"""Boosted regression trees as plain arrays: learned elsewhere, stored without pickle, summed here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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

    @cached_property
    def _child(self) -> NDArray[np.intp]:
        """Left and right child of every node, side by side."""
        return np.column_stack([self.left, self.right]).ravel().astype(np.intp)

    @cached_property
    def _is_leaf(self) -> NDArray[np.bool_]:
        return np.asarray(self.left == np.arange(len(self.left)))

    def predict(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """(rows): the sum over trees. `rows` has shape (rows, features) and no missing values."""
        values = rows.ravel()
        node = np.tile(self.root, len(rows)).astype(np.intp)
        begin = np.repeat(np.arange(len(rows)) * rows.shape[1], len(self.root))
        walking = np.arange(len(node))
        for level in range(self.depth):
            at = node[walking]
            goes_right = values.take(begin[walking] + self.feature.take(at)) > self.threshold.take(at)
            node[walking] = self._child.take(2 * at + goes_right)
            if level % 2:
                walking = walking[~self._is_leaf.take(node[walking])]
        return np.asarray(self.baseline + self.value.take(node).reshape(len(rows), -1).sum(axis=1))
