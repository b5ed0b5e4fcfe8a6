"""Replies that never came in talks: how many of each side, and in which talks a side never replied, so that nothing could be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlver.tasks.studies.blind.answers import Replied, Row, Side, TalkBegun


@dataclass(frozen=True)
class Silence:
    """`failed_a`, `failed_b`: replies that a side did not give, in all talks of the two. `left_out`: judged talks that do not count."""

    failed_a: int = 0
    failed_b: int = 0
    left_out: int = 0


def silent_talks(rows: Iterable[Row]) -> set[str]:
    """The ids of those in which a side never replied. Of a talk without any rows of replies nothing is known."""
    gave: dict[tuple[str, Side], bool] = {}
    for talk_id, side, failed in _replies(rows):
        gave[talk_id, side] = gave.get((talk_id, side), False) or not failed
    return {talk_id for (talk_id, _), replied in gave.items() if not replied}


def silence_of(rows: Sequence[Row], left_out: Iterable[str]) -> dict[tuple[str, str], Silence]:
    """By the two that talked. `left_out`: the ids of judged talks."""
    talks = {row.talk_id: (row.a, row.b) for row in rows if isinstance(row, TalkBegun)}
    failed = Counter((talks[talk_id], side) for talk_id, side, missing in _replies(rows) if missing and talk_id in talks)
    gone = Counter(talks[talk_id] for talk_id in left_out)
    return {both: Silence(failed[both, "a"], failed[both, "b"], gone[both]) for both in set(talks.values())}


def _replies(rows: Iterable[Row]) -> Iterable[tuple[str, Side, bool]]:
    for row in rows:
        if isinstance(row, Replied):
            yield row.talk_id, "a", row.a.error is not None
            yield row.talk_id, "b", row.b.error is not None
