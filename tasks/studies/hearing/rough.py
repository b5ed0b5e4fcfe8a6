"""Replies and messages as people type them in a hurry: without the mark at the end, without capitals or apostrophes, with slips of the finger.

Those who wrote the labelled replies set their marks with care. To the reader a text without them would be one that breaks off, or nonsense. What a
text means is the same either way, and so are its labels. Good and bad, sense and nonsense are roughened alike, so that it tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from rlver.components.labels.labelled import Labelled

SHARE = 0.25  # of the replies, and of the messages
_EACH_WAY = 0.5
_SLIPS = 0.04  # of the words of LEAST_LETTERS and more
_LEAST_LETTERS = 5
_END = re.compile(r"[.!]+\s*$")
_BETWEEN = re.compile(r"[.;]\s+")
_APOSTROPHE = re.compile(r"(?<=[A-Za-z])['\u2019](?=[a-z])")
_LONG_WORD = re.compile(rf"\b[A-Za-z]{{{_LEAST_LETTERS},}}\b")


def roughened(rows: Sequence[Labelled], seed: int) -> list[Labelled]:
    """`rows` in their order, of which a share has a rough reply, and a share a rough message. The same for the same seed."""
    chance = Random(seed)

    def maybe(text: str) -> str:
        return rough(text, chance) if chance.random() < SHARE else text

    return [replace(row, user=maybe(row.user), reply=maybe(row.reply)) for row in rows]


def rough(text: str, chance: Random) -> str:
    """`text` in one or more of the ways of WAYS; as it is where none of those drawn changes it."""
    drawn = [way for way in WAYS if chance.random() < _EACH_WAY]
    for way in drawn or [chance.choice(WAYS)]:
        text = way(text, chance)
    return text


def _no_end(text: str, _: Random) -> str:
    return _END.sub("", text)


def _no_capitals(text: str, _: Random) -> str:
    return text.lower()


def _no_marks_between(text: str, _: Random) -> str:
    """Sentences run into each other."""
    return _BETWEEN.sub(" ", text)


def _no_apostrophes(text: str, _: Random) -> str:
    return _APOSTROPHE.sub("", text)


def _slips(text: str, chance: Random) -> str:
    """Two neighbouring letters change places, or one is missing."""

    def slipped(found: re.Match[str]) -> str:
        word = found.group()
        if chance.random() >= _SLIPS:
            return word
        place = chance.randrange(1, len(word) - 1)
        after = word[place + 1] + word[place] + word[place + 2 :] if chance.random() < 0.5 else word[place + 1 :]
        return word[:place] + after

    return _LONG_WORD.sub(slipped, text)


WAYS: tuple[Callable[[str, Random], str], ...] = (_no_end, _no_capitals, _no_marks_between, _no_apostrophes, _slips)
