"""Replies written for small models (the warm-up's dialogues), drawn: where they stand, and under the message of another dialogue; no first replies."""

from __future__ import annotations

from collections.abc import Sequence, Set
from random import Random

from rlver.components.domain.persona import HiddenNeed
from rlver.components.labels.labelled import SHORT, WRITTEN, Labelled
from rlver.components.labels.warmup import GOOD, Shown, collection, is_held_out
from rlver.components.users.scripted.effects import SERVES

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
