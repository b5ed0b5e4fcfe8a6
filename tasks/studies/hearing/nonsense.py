"""Made nonsense for fitting: labelled replies whose words were mixed until they mean nothing. It has the words of support and no act.

Three ways: the words of a reply in another order; its words of content replaced by those of other replies with the same ending; the begin of one
reply with the end of another. What a small model says that games the reward looks like all three (docs/pretrained.md).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from rlver.components.labels.labelled import Labelled
from rlver.components.users.scripted.reading import COMMON_WORDS

MADE = "made"  # their style
SHARE = 0.15  # of the replies that are fitted
LEAST_WORDS, MOST_WORDS = 8, 50
_LEAST_REPLACED = 4  # with fewer words of content the meaning may stay
_REPLACED = 0.8  # of the words of content
_CONTENT = re.compile(r"[A-Za-z]{4,}")
_ENDINGS = ("ing", "ed", "ly", "es", "s")


def made(rows: Sequence[Labelled], seed: int, share: float = SHARE) -> list[Labelled]:
    """Nonsense from this share of `rows`, or of those of fit length if they are fewer, as answers to the same messages: no act, no quality, value -1. The same for the same seed."""
    chance = Random(seed)
    long_enough = [row for row in rows if LEAST_WORDS <= len(row.reply.split()) <= MOST_WORDS]
    words = _words_of_content(long_enough)
    mixed = []
    for row in chance.sample(long_enough, min(len(long_enough), round(share * len(rows)))):
        other = chance.choice(long_enough).reply
        ways = [_other_order(row.reply, chance), _other_end(row.reply, other, chance)]
        if len(_content(row.reply)) >= _LEAST_REPLACED:
            ways.append(_other_words(row.reply, words, chance))
        mixed.append(replace(row, style=MADE, reply=chance.choice(ways), acts=frozenset(), value=-1, quality=frozenset(), trap="nonsense"))
    return mixed


def _other_order(reply: str, chance: Random) -> str:
    """The words mixed; a capital at the begin and the mark at the end stay."""
    bare = reply.rstrip(".!?")
    words = bare.split()
    words[0] = words[0].lower() if words[0] not in ("I", "I'd", "I'm", "I've") else words[0]
    chance.shuffle(words)
    text = " ".join(words) + reply[len(bare) :]
    return text[0].upper() + text[1:] if reply[0].isupper() else text


def _other_words(reply: str, words: Mapping[str, Sequence[str]], chance: Random) -> str:
    def swapped(found: re.Match[str]) -> str:
        word = found.group()
        if word.lower() in COMMON_WORDS or chance.random() > _REPLACED:
            return word
        new = chance.choice(words[_ending(word)])
        return new.capitalize() if word[0].isupper() else new

    return _CONTENT.sub(swapped, reply)


def _other_end(reply: str, other: str, chance: Random) -> str:
    """Each is cut somewhere in its middle third."""
    begin, end = reply.split(), other.split()
    cut, on = (chance.randint(len(one) // 3, 2 * len(one) // 3) for one in (begin, end))
    return " ".join([*begin[:cut], *end[on:]])


def _words_of_content(rows: Sequence[Labelled]) -> dict[str, list[str]]:
    """By ending; a word stands as often as it is said."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for word in _content(row.reply):
            found[_ending(word)].append(word.lower())
    return found


def _content(reply: str) -> list[str]:
    return [word for word in _CONTENT.findall(reply) if word.lower() not in COMMON_WORDS]


def _ending(word: str) -> str:
    return next((ending for ending in _ENDINGS if word.lower().endswith(ending)), "")
