"""What the reader is fitted to beside labelled replies: replies that are drawn, and replies made nonsense.

Drawn are replies written for small models (the warm-up's dialogues): where they stand, and under the message of another dialogue; no first replies.

Nonsense are labelled replies whose words were mixed until they mean nothing. It has the words of support and no act. Three ways: the words of a
reply in another order; its words of content replaced by those of other replies with the same ending; the begin of one reply with the end of
another. What a small model says that games the reward looks like all three (docs/pretrained.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from random import Random

from rlver.components.domain.persona import HiddenNeed
from rlver.components.labels.labelled import SHORT, WRITTEN, Labelled
from rlver.components.labels.warmup import GOOD, Shown, collection, is_held_out
from rlver.components.scoring.statistics import by_cluster
from rlver.components.users.scripted.effects import SERVES
from rlver.components.users.scripted.reading import COMMON_WORDS

DRAWN, DRAWN_SHORT, DRAWN_APART = 1200, 800, 200
Drawn = tuple[list[Labelled], list[Labelled]]  # in their place, and misplaced
_Place = tuple[int, int]  # number of the dialogue, and of the turn


def written(seed: int, apart: Set[str] = frozenset()) -> Drawn:
    """Of dialogues without a message that is kept `apart`. AI readers found 237 of 240 of the first kind coherent, and 12 of 217 of the second (docs/log.md)."""
    dialogues = written_dialogues(apart)
    return _drawn(WRITTEN, dialogues, _places(dialogues), DRAWN, Random(seed))


def short(seed: int) -> Drawn:
    """Short ones that serve the user's need, and so name an act; of the dialogues that the warm-up is shown."""
    dialogues = short_dialogues(False)
    return _drawn(SHORT, dialogues, _good(dialogues), DRAWN_SHORT, Random(seed))


def short_apart(seed: int, fitted: Set[str]) -> Drawn:
    """As `short`, for tests: of the dialogues that are never shown, under none of the messages that were `fitted`."""
    dialogues = short_dialogues(True)
    places = [(number, turn) for number, turn in _good(dialogues) if dialogues[number].users[turn] not in fitted]
    return _drawn(SHORT, dialogues, places, DRAWN_APART, Random(seed))


def written_dialogues(apart: Set[str]) -> list[Shown]:
    return [one for one in collection(WRITTEN) if apart.isdisjoint(one.users)]


def short_dialogues(held_out: bool) -> list[Shown]:
    return [one for one in collection(SHORT) if is_held_out(one) is held_out]


def _places(dialogues: Sequence[Shown]) -> list[_Place]:
    return [(number, turn) for number, one in enumerate(dialogues) for turn in range(1, len(one.users))]


def _good(dialogues: Sequence[Shown]) -> list[_Place]:
    return [(number, turn) for number, turn in _places(dialogues) if dialogues[number].marks[turn] == GOOD]


def _drawn(style: str, dialogues: Sequence[Shown], places: Sequence[_Place], count: int, chance: Random) -> Drawn:
    """`count` replies of each kind; those misplaced are among those in their place."""
    drawn = chance.sample(places, 2 * count)
    own, strange = drawn[:count], drawn[count:]
    said = [chance.choice([other for other in own if other[0] != place[0]]) for place in strange]

    def row(place: _Place, reply: str, acts: Set[str], quality: Set[str]) -> Labelled:
        users = dialogues[place[0]].users[: place[1] + 1]
        return Labelled(style, style, users[-1], " ".join(users[:-1]), reply, frozenset(acts), 0, frozenset(quality), None)

    def acts(number: int) -> Set[str]:
        return {SERVES[HiddenNeed(dialogues[number].need)]} if style == SHORT else set()

    in_place = [row((number, turn), dialogues[number].replies[turn], acts(number), {"coherent"}) for number, turn in own]
    return in_place, [
        row(place, dialogues[number].replies[turn], set(), set()) for place, (number, turn) in zip(strange, said, strict=True)
    ]


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
    return by_cluster((_ending(word), word.lower()) for row in rows for word in _content(row.reply))


def _content(reply: str) -> list[str]:
    return [word for word in _CONTENT.findall(reply) if word.lower() not in COMMON_WORDS]


def _ending(word: str) -> str:
    return next((ending for ending in _ENDINGS if word.lower().endswith(ending)), "")
