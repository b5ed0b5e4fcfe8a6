"""Texts as hashed n-grams of units, in any language, with no vocabulary to store.

A unit is one character of a script written without spaces, one word of any other, or one mark. Hashes are CRC-32, so they are the same on
every platform; runs of units get theirs by mixing, in 32 bits.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint32]
Buckets = NDArray[np.int64]

_ORDERS = (1, 2, 3)
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNIT = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}_])\w)+(?:['’](?:(?![{_UNSPACED}_])\w)+)?|[^\w\s]|_")
_WHITE = np.array([chr(point).isspace() for point in range(0x3002)])  # none is higher
_PRIME, _MIX = np.uint32(0x01000193), np.uint32(0x85EBCA6B)  # of FNV-1a; of murmur3's finaliser
MARK = re.compile("[,.;:!?，。；：！？、…]")  # that ends a clause, as a line end does
CLAUSE = re.compile("[^,.;:!?，。；：！？、…\n]+")


@lru_cache(maxsize=65_536)
def _hash(unit: str) -> int:
    """Of its lower case and compatibility form."""
    return zlib.crc32(unicodedata.normalize("NFKC", unit).lower().encode("utf-8", "surrogatepass"))


def _run_hashes(units: list[str]) -> list[Hashes]:
    """For each order, the hash of every run of that many units, in reading order."""
    ones = np.fromiter(map(_hash, units), dtype=np.uint32, count=len(units))
    found = []
    for order in _ORDERS:
        length = max(0, len(ones) - order + 1)
        mixed = np.full(length, order, dtype=np.uint32)
        for offset in range(order):
            mixed = (mixed ^ ones[offset : offset + length]) * _PRIME
            mixed ^= mixed >> np.uint32(15)
        mixed *= _MIX
        found.append(mixed ^ (mixed >> np.uint32(13)))
    return found


def distinct(values: Hashes) -> Hashes:
    """Each value once, ascending. (`np.unique` does the same and takes ten times as long.)"""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


@dataclass(frozen=True, eq=False)
class Text:
    """A text that was read once: its units, and the hashes of its runs of 1, 2 and 3 units."""

    text: str
    units: list[str]  # as they stand in the text, which they cover but for white space
    hashes: list[Hashes]
    pairs: Hashes  # distinct hashes of runs of two, ascending
    _found: dict[int, Buckets] = field(default_factory=dict)

    def buckets(self, bits: int) -> Buckets:
        """The distinct buckets below 2**bits, ascending; worked out once."""
        if bits not in self._found:
            self._found[bits] = distinct(np.concatenate(self.hashes) & np.uint32((1 << bits) - 1)).astype(np.int64)
        return self._found[bits]

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where in the text each unit begins."""
        lengths = np.fromiter(map(len, self.units), dtype=np.intp, count=self.size)
        points = np.frombuffer(self.text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        return np.asarray(np.flatnonzero(~_WHITE.take(points, mode="clip"))[np.cumsum(lengths) - lengths], dtype=np.intp)

    @property
    def size(self) -> int:
        return len(self.units)


@lru_cache(maxsize=20_000)
def read(text: str) -> Text:
    units = _UNIT.findall(text)
    hashes = _run_hashes(units)
    return Text(text, units, hashes, distinct(hashes[1]))


def share_in(pairs: Hashes, others: Hashes) -> float:
    """The share of the distinct `pairs` that are among `others`; 0 for none. Both ascending."""
    if not len(pairs) or not len(others):
        return 0.0
    places = np.minimum(np.searchsorted(others, pairs), len(others) - 1)
    return int(np.count_nonzero(others[places] == pairs)) / len(pairs)
