"""Labelled replies as the hearing user takes them: a user whose need nobody knows, and the reply as the first one it reads.

What the user told before the message is known to the reader, as it is in a dialogue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from rlver.components.domain.protocols import Exchange, now
from rlver.components.domain.transcript import Appraisal
from rlver.components.labels.labelled import STRICT_STYLES, WRITTEN, WRITTEN_APART, Labelled
from rlver.components.users.heard.appraiser import Hearing
from rlver.components.users.heard.reading import Heard, Reader
from rlver.components.users.scripted.appraiser import Listener
from rlver.components.users.scripted.effects import Difficulty
from rlver.tasks.studies.acts.detection import ReplyWithActs as Answer
from rlver.tasks.studies.hearing.drawn import short_dialogues, written_dialogues

STYLE, SITUATIONS = "a style never fitted: {style}", "situations never fitted, in fitted styles"
OLD = "the old test set: {style}"
EVERY = "all of these"
AT_ONCE = 32  # replies that wait to be read; whoever breaks off waits for no more


@dataclass(frozen=True)
class Listening:
    """Hears and takes labelled replies; one for all, so that each is read once."""

    reader: Reader
    difficulty: Difficulty
    listener: Listener = field(default_factory=lambda: Listener(None))

    def ahead(self, rows: Iterable[Answer]) -> None:
        """Has the reader read them, several at a time, before they are asked for one by one."""
        _wait_for(self.reader.soon(row.reply, row.user, before(row)) for row in rows)

    def ahead_of(self, dialogues: Iterable[Sequence[Exchange]]) -> None:
        """The same of all replies of dialogues."""
        _wait_for(one for exchanges in dialogues for one in Hearing(self.listener, self.difficulty, self.reader).ahead(exchanges))

    def heard(self, row: Answer) -> Heard:
        return self.reader.hear(row.reply, row.user, before(row))

    def found(self, row: Answer) -> frozenset[str]:
        return self.heard(row).found

    def appraisal(self, row: Answer) -> Appraisal:
        hearing = Hearing(self.listener, self.difficulty, _Knowing(self.reader, before(row)))  # type: ignore[arg-type]
        return now(hearing.appraise([Exchange(row.user, row.reply)], 0))

    def change(self, row: Answer) -> int:
        return self.appraisal(row).change

    def change_after(self, exchanges: Sequence[Exchange]) -> int:
        """After the last reply of a dialogue."""
        return now(Hearing(self.listener, self.difficulty, self.reader).appraise(exchanges, 0)).change


@dataclass(frozen=True)
class _Knowing:
    """A reader who knows what the user told before a message that stands alone here."""

    reader: Reader
    told: str

    def hear(self, reply: str, user: str, before: str = "") -> Heard:
        return self.reader.hear(reply, user, before or self.told)

    def soon(self, reply: str, user: str, before: str = "") -> Future[Heard]:
        return self.reader.soon(reply, user, before or self.told)


def _wait_for(readings: Iterable[Future[Heard]]) -> None:
    asked: deque[Future[Heard]] = deque()
    for one in readings:
        asked.append(one)
        if len(asked) > AT_ONCE:
            asked.popleft().result()


def before(row: Answer) -> str:
    """What the user told earlier; the old test set has single messages only."""
    return row.before if isinstance(row, Labelled) else ""


def groups(rows: Sequence[Labelled], old: Mapping[str, Sequence[Answer]]) -> dict[str, list[Answer]]:
    """The replies that no head was fitted to: whole styles, situations of the other styles, and the old test set by style. Last, all of them.

    A message that stands among the fitted ones too is left out, and so are the styles that were read strictly (see `strictly`).
    """
    seen = fitted_messages(rows)
    rows = [row for row in rows if row.style not in STRICT_STYLES]
    apart = [row for row in rows if not row.is_for_fitting and row.user not in seen]
    whole = whole_styles(rows)
    found: dict[str, list[Answer]] = {STYLE.format(style=style): [] for style in sorted(whole)}
    found[SITUATIONS] = []
    for row in apart:
        found[STYLE.format(style=row.style) if row.style in whole else SITUATIONS].append(row)
    found |= {OLD.format(style=style): list(of_style) for style, of_style in old.items()}
    found = {name: of_group for name, of_group in found.items() if of_group}
    return {**found, EVERY: [row for of_group in found.values() for row in of_group]}


def strictly(rows: Sequence[Labelled]) -> dict[str, list[Labelled]]:
    """Replies that were read strictly and never fitted, nor any with their message.

    Of small models all, and those of users of whom no reply was fitted; and replies that were written for small models, half of them misplaced.
    """
    seen, situations = fitted_messages(rows), {row.situation for row in rows if row.is_for_strict_fitting}
    apart = [row for row in rows if row.style in STRICT_STYLES and not row.is_for_strict_fitting and row.user not in seen]
    of_models = [row for row in apart if row.style not in (WRITTEN, WRITTEN_APART)]
    return {
        "of small models": of_models,
        "of small models, other users": [row for row in of_models if row.situation not in situations],
        "written for them": [row for row in apart if row.style == WRITTEN_APART],
    }


def unseen(rows: Sequence[Labelled], later: Sequence[Labelled]) -> list[Labelled]:
    """Of `later`, labelled after the reader was fitted to `rows`, those whose message was not fitted."""
    seen = fitted_messages(rows)
    return [row for row in later if row.user not in seen]


def fitted_messages(rows: Sequence[Labelled]) -> set[str]:
    """The messages that stand before what the reader is fitted to: labelled replies, and those that are drawn from the warm-up's dialogues."""
    kept = {row.user for row in rows if row.style == WRITTEN_APART}
    drawn = {user for one in [*written_dialogues(kept), *short_dialogues(False)] for user in one.users}
    return drawn | {row.user for row in rows if row.is_for_fitting or row.is_for_strict_fitting}


def whole_styles(rows: Sequence[Labelled]) -> set[str]:
    """The styles of which nothing is for fitting."""
    return {row.style for row in rows} - {row.style for row in rows if row.is_for_fitting}
