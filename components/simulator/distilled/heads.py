"""Linear readings of texts: a weight for every bucket, need and target. What ridge regression learns, and what a span is worth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from components.simulator.distilled.moment import NEEDS
from components.simulator.distilled.ngrams import Text

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
        """(targets): presence of every bucket of unit length, times the weights."""
        found = text.buckets(self.bits)
        scale = 1 / np.sqrt(max(1, len(found)))
        total = np.zeros(self.weight.shape[2])
        for group in self.groups(need):
            total += scale * (np.ones(len(found), dtype=np.float32) @ self._quick[group].take(found, axis=0)) + self.constant[group]
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
