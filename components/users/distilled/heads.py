"""What was learned, as plain arrays: linear readings of texts (ridge), boosted regression trees, and the calibration to users' changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rlver.components.users.distilled.features import NEEDS
from rlver.components.users.distilled.ngrams import Text

ANYBODY = len(NEEDS)  # the weights that hold whatever the need is


@dataclass(frozen=True, eq=False)
class Head:
    """`weight` has shape (groups, buckets, targets): one group for everybody, or one per need and then one for everybody."""

    weight: NDArray[np.float16]
    constant: NDArray[np.float32]  # (groups, targets)

    @cached_property
    def _quick(self) -> NDArray[np.float32]:
        """The same weights in the width that processors add fast."""
        return self.weight.astype(np.float32)

    @property
    def bits(self) -> int:
        return int(self.weight.shape[1] - 1).bit_length()

    def groups(self, need: str | None) -> list[int]:
        if len(self.weight) == 1:
            return [0]
        return [ANYBODY] if need is None else [ANYBODY, NEEDS.index(need)]

    def read(self, text: Text, need: str | None) -> NDArray[np.float64]:
        """(targets): presence of every bucket of unit length, times the weights, added one after the other: the same bits on every processor."""
        found = text.buckets(self.bits)
        scale = 1 / np.sqrt(max(1, len(found)))
        total = np.zeros(self.weight.shape[2])
        for group in self.groups(need):
            total += scale * self._quick[group].take(found, axis=0).sum(axis=0, dtype=np.float64) + self.constant[group]
        return total

    def worth(self, text: Text, need: str | None, target: int) -> NDArray[np.float64]:
        """(units): what each unit of the text adds to one target; a bucket that occurs often shares its worth among its places."""
        mask = np.uint32((1 << self.bits) - 1)
        places = [(order, (hashes & mask).astype(np.int64)) for order, hashes in enumerate(text.hashes, start=1)]
        together = np.concatenate([found for _, found in places])
        found_once = text.buckets(self.bits)
        inverse = np.searchsorted(found_once, together)
        counts = np.bincount(inverse, minlength=len(found_once))
        share = sum(self._quick[group, found_once, target].astype(np.float64) for group in self.groups(need)) / counts
        of_place = share[inverse] / np.sqrt(max(1, len(found_once)))
        worth, begin = np.zeros(text.size), 0
        for order, found in places:
            here = of_place[begin : begin + len(found)] / order
            for offset in range(order):
                worth[offset : offset + len(found)] += here
            begin += len(found)
        return worth


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

    def changes(self, expected: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.array(self.grid)[np.searchsorted(self.thresholds, expected, side="right")]

    def chance_positive(self, expected: float) -> float:
        return float(np.interp(expected, self.expected, self.positive))

    def error(self, expected: float) -> float:
        """Points by which the expected change is wrong, as a root mean square."""
        return float(np.interp(expected, self.expected, self.spread))
