"""Replies as people type and say them, rated: does what moves the user agree with the ratings? Beside it the scripted user, and the length alone.

The ratings are of three kinds, as others rate such texts: how much empathy a reply to a post shows, how much a turn of a chat helped, and whether a
whole session was led well. All of it was written and rated by AI models for this project (docs/hearing.md), and no head was fitted to any of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlver.components.domain.files import BadFile, read_jsonl
from rlver.components.domain.protocols import Exchange
from rlver.components.scoring.statistics import Estimated
from rlver.components.users.scripted.appraiser import Listener, appraise
from rlver.components.users.scripted.reading import words_of
from rlver.tasks.runtime.brackets import aligned, shown
from rlver.tasks.studies.hearing.agreement import estimated, spearman
from rlver.tasks.studies.hearing.figures import told_apart
from rlver.tasks.studies.hearing.listening import Listening

FOLDER = Path(__file__).with_name("ratings")
_STRANGER = Listener(None)
Reads = Callable[[Sequence[Exchange]], float]  # a number for the last reply of an exchange


class Kind(NamedTuple):
    """A file of FOLDER: what its ratings are, and from which on a reply counts as good."""

    file: str
    rated: str
    good: int | None  # None where whole conversations are rated


KINDS = (
    Kind("posts", "replies to posts, by empathy shown (0..6)", 2),
    Kind("chats", "turns of chats, by stars (1..5)", 4),
    Kind("sessions", "sessions, led well or badly", None),
)


@dataclass(frozen=True)
class Rated:
    """A conversation: its exchanges, the rating of each reply, or of all of it."""

    exchanges: tuple[Exchange, ...]
    ratings: tuple[int, ...]
    about: str  # conversations about the same, or of one reply to the same message, are one cluster
    is_good: bool | None = None

    def until(self) -> Iterator[Sequence[Exchange]]:
        """The exchanges up to each reply."""
        return (self.exchanges[: number + 1] for number in range(len(self.exchanges)))


def read_rated(path: Path) -> list[Rated]:
    """Raises BadFile with the line."""
    return [_rated(one, f"{path}:{number}") for number, one in read_jsonl(path)]


def _rated(one: dict[str, Any], where: str) -> Rated:
    try:
        turns = one["turns"]
        exchanges = tuple(Exchange(turn["user"], turn["reply"]) for turn in turns)
        about = one.get("about", where if turns[1:] else turns[0]["user"])
    except (KeyError, IndexError, TypeError) as error:
        raise BadFile(f"{where}: expected turns, each with user and reply") from error
    ratings = tuple(turn["rating"] for turn in turns if "rating" in turn)
    if len(ratings) not in (0, len(turns)):
        raise BadFile(f"{where}: {len(ratings)} of {len(turns)} turns are rated: rate all or none")
    return Rated(exchanges, ratings, about, one.get("is_good"))


def rated_report(listening: Listening, samples: int, seed: int, folder: Path = FOLDER) -> str:
    """One line for each kind of rating and each who reads."""
    readers: dict[str, Reads] = {
        "heard": listening.change_after,
        "scripted": lambda exchanges: _by_scripted(exchanges, listening),
        "length": lambda exchanges: len(words_of(exchanges[-1].reply)),
    }
    lines = []
    for kind in KINDS:
        rows = read_rated(folder / f"{kind.file}.jsonl")
        listening.ahead_of(exchanges for row in rows for exchanges in row.until())
        for name, reads in readers.items():
            lines.append((kind.rated, name, *_agreement(rows, kind, reads, samples, seed)))
    header = ("rated, never fitted", "read by", "rated", "rank correlation", "area, good and others")
    return f"Replies as people type and say them: the change of the emotion beside ratings\n\n{aligned(header, lines)}"


def _by_scripted(exchanges: Sequence[Exchange], listening: Listening) -> int:
    *earlier, last = exchanges
    return appraise(_STRANGER, listening.difficulty, earlier, last.user, last.reply).change


def _agreement(rows: Sequence[Rated], kind: Kind, reads: Reads, samples: int, seed: int) -> tuple[int, str, str]:
    """How many are rated, the rank correlation of the reading with the ratings, and how often a good one is read as better than another one."""
    each = [[reads(exchanges) for exchanges in row.until()] for row in rows]
    if kind.good is None:
        whole = ((row.about, math.fsum(read) / len(read), bool(row.is_good)) for row, read in zip(rows, each, strict=True))
        return len(rows), "-", shown(told_apart(whole))
    pairs = [
        (row.about, value, rating) for row, read in zip(rows, each, strict=True) for value, rating in zip(read, row.ratings, strict=True)
    ]
    area = told_apart((about, value, rating >= kind.good) for about, value, rating in pairs)
    return len(pairs), shown(rank_correlation(pairs, samples, seed)), shown(area)


def rank_correlation(pairs: Sequence[tuple[str, float, float]], samples: int, seed: int) -> Estimated | None:
    """Spearman's, of pairs (cluster, reading, rating); None where one of the two never differs. The interval is over clusters, drawn anew."""
    cluster, first, second = (np.unique(column, return_inverse=True) for column in zip(*pairs, strict=True))
    tables_CKK = np.zeros((len(cluster[0]), len(first[0]), len(second[0])))
    np.add.at(tables_CKK, (cluster[1], first[1], second[1]), 1)
    return estimated(tables_CKK, spearman, samples, seed)
