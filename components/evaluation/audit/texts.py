"""Replies as runs of words, in any language, and how much of one text is in others.

Overlaps with other personas are chances, not counts: what a persona drawn at random has heard too. A count of duplicates would grow with
the number of dialogues, and a threshold set on 100 personas would mean something else on 500.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache

from components.simulator.scripted.reading import COMMON_WORDS

_WORD = re.compile(r"[぀-ヿ㐀-鿿]|[^\W_぀-ヿ㐀-鿿]+(?:'[^\W_]+)?")
_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'"})

_LEAST_COMMON_SHARE = 0.25  # of an English speaker's words are among the commonest, as in the scripted user's reading

Run = tuple[str, ...]


@lru_cache(maxsize=1 << 14)
def words_of(text: str) -> Run:
    """Lower-case words; a character of Chinese or Japanese counts as a word."""
    return tuple(_WORD.findall(text.translate(_QUOTES).lower()))


def speak_english(messages: Iterable[str]) -> bool:
    """Whether the users do; how the policy answers them is its own business and is judged. A few foreign words make no English."""
    words = [word for message in messages for word in words_of(message)]
    common = sum(word in COMMON_WORDS or "'" in word for word in words)
    return bool(words) and common >= _LEAST_COMMON_SHARE * len(words)


@lru_cache(maxsize=1 << 11)
def runs_of(text: str, length: int) -> frozenset[Run]:
    """Every run of `length` successive words; of a shorter text the whole of it. Empty for a text without words."""
    words = words_of(text)
    length = min(length, len(words))
    return frozenset(words[start : start + length] for start in range(len(words) - length + 1)) if words else frozenset()


def share_found(reply: str, earlier: Sequence[str], length: int) -> float | None:
    """The share of the runs of `reply` that stand in one of the `earlier` texts; None for a reply without words."""
    runs = runs_of(reply, length)
    if not runs:
        return None
    length = min(length, len(words_of(reply)))
    found = frozenset[Run]().union(*(runs_of(text, length) for text in earlier))
    return len(runs & found) / len(runs)


def chances_elsewhere(features: Iterable[tuple[str, str, Iterable[Hashable]]]) -> dict[str, list[float]]:
    """For each (persona, dialogue, features of a reply): the chance that a feature of it, drawn at random, is met in a dialogue of another
    persona, both drawn at random. So neither more personas nor more dialogues with each make it larger.

    Grouped by persona; replies without features are left out. Needs two personas, else there is no other one: empty.
    """
    replies = [(persona, dialogue, tuple(found)) for persona, dialogue, found in features]
    held: dict[str, set[str]] = {}
    met: dict[Hashable, dict[str, set[str]]] = {}  # feature: persona: dialogues
    for persona, dialogue, found in replies:
        held.setdefault(persona, set()).add(dialogue)
        for feature in found:
            met.setdefault(feature, {}).setdefault(persona, set()).add(dialogue)
    shares = {feature: {persona: len(those) / len(held[persona]) for persona, those in by.items()} for feature, by in met.items()}
    sums = {feature: math.fsum(by.values()) for feature, by in shares.items()}
    values: dict[str, list[float]] = {}
    for persona, _, found in replies:
        if found and len(held) > 1:
            elsewhere = math.fsum(sums[feature] - shares[feature][persona] for feature in found)
            values.setdefault(persona, []).append(elsewhere / ((len(held) - 1) * len(found)))
    return values
