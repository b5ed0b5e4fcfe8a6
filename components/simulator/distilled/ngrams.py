"""Texts as hashed n-grams of units, in any language, with no vocabulary to store.

A unit is one character of a script written without spaces, one word of any other, or one mark. Hashes are CRC-32, so they are the same on
every platform; runs of units get theirs by mixing, in 32 bits.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint32]
Buckets = NDArray[np.int64]

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNIT = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}_])\w)+(?:['’](?:(?![{_UNSPACED}_])\w)+)?|[^\w\s]|_")
_PRIME, _MIX = np.uint32(0x01000193), np.uint32(0x85EBCA6B)  # of FNV-1a; of murmur3's finaliser
CLAUSE_END = frozenset(",.;:!?，。；：！？、…\n")


def units_of(text: str) -> list[tuple[str, int, int]]:
    """(unit, start, end) with positions in `text`; the unit is in lower case and its compatibility form."""
    return [(_plain(found[0]), found.start(), found.end()) for found in _UNIT.finditer(text)]


@lru_cache(maxsize=65_536)
def _plain(unit: str) -> str:
    return unicodedata.normalize("NFKC", unit).lower()


@lru_cache(maxsize=65_536)
def _hash(unit: str) -> int:
    return zlib.crc32(unit.encode("utf-8"))


def run_hashes(units: list[str], orders: tuple[int, ...]) -> list[Hashes]:
    """For each order, the hash of every run of that many units, in reading order."""
    ones = np.array([_hash(unit) for unit in units], dtype=np.uint32)
    found = []
    for order in orders:
        length = max(0, len(ones) - order + 1)
        mixed = np.full(length, order, dtype=np.uint32)
        for offset in range(order):
            mixed = (mixed ^ ones[offset : offset + length]) * _PRIME
            mixed ^= mixed >> np.uint32(15)
        mixed *= _MIX
        found.append(mixed ^ (mixed >> np.uint32(13)))
    return found


def buckets(hashes: list[Hashes], bits: int) -> Buckets:
    """The distinct buckets below 2**bits, ascending."""
    together = np.concatenate(hashes) if hashes else np.empty(0, dtype=np.uint32)
    return np.unique(together & np.uint32((1 << bits) - 1)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Text:
    """A text that was read once: its units with their places, and the hashes of its runs of 1, 2 and 3 units."""

    text: str
    units: list[tuple[str, int, int]]
    hashes: list[Hashes]
    pairs: NDArray[np.uint32]  # distinct hashes of runs of two, ascending

    @property
    def size(self) -> int:
        return len(self.units)


ORDERS = (1, 2, 3)


@lru_cache(maxsize=20_000)
def read(text: str) -> Text:
    units = units_of(text)
    hashes = run_hashes([unit for unit, _, _ in units], ORDERS)
    return Text(text, units, hashes, np.unique(hashes[1]))


def share_in(pairs: Hashes, others: Hashes) -> float:
    """The share of the distinct `pairs` that are among `others`; 0 for none. Both ascending."""
    if not len(pairs) or not len(others):
        return 0.0
    places = np.minimum(np.searchsorted(others, pairs), len(others) - 1)
    return float(np.mean(others[places] == pairs))
