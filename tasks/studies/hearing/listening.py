"""Labelled replies as the hearing user takes them: a user whose need nobody knows, and the reply as the first one it reads.

What the user told before the message is known to the reader, as it is in a dialogue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rlver.components.domain.protocols import Exchange, now
from rlver.components.domain.transcript import Appraisal
from rlver.components.labels.labelled import STRICT_STYLES, Labelled
from rlver.components.users.heard.appraiser import Hearing
from rlver.components.users.heard.reading import Heard, Reader
from rlver.components.users.scripted.appraiser import Listener
from rlver.components.users.scripted.effects import Difficulty
from rlver.tasks.studies.acts.detection import ReplyWithActs as Answer

STYLE, SITUATIONS = "a style never fitted: {style}", "situations never fitted, in fitted styles"
OLD = "the old test set: {style}"
EVERY = "all of these"


@dataclass(frozen=True)
class Listening:
    """Hears and takes labelled replies; one for all, so that each is read once."""

    reader: Reader
    difficulty: Difficulty
    listener: Listener = field(default_factory=lambda: Listener(None))

    def heard(self, row: Answer) -> Heard:
        return self.reader.hear(row.reply, row.user, before(row))

    def found(self, row: Answer) -> frozenset[str]:
        return self.heard(row).found

    def appraisal(self, row: Answer) -> Appraisal:
        hearing = Hearing(self.listener, self.difficulty, _Knowing(self.reader, before(row)))  # type: ignore[arg-type]
        return now(hearing.appraise([Exchange(row.user, row.reply)], 0))

    def change(self, row: Answer) -> int:
        return self.appraisal(row).change


@dataclass(frozen=True)
class _Knowing:
    """A reader who knows what the user told before a message that stands alone here."""

    reader: Reader
    told: str

    def hear(self, reply: str, user: str, before: str = "") -> Heard:
        return self.reader.hear(reply, user, before or self.told)


def before(row: Answer) -> str:
    """What the user told earlier; the old test set has single messages only."""
    return row.before if isinstance(row, Labelled) else ""


def groups(rows: Sequence[Labelled], old: Mapping[str, Sequence[Answer]]) -> dict[str, list[Answer]]:
    """The replies that no head was fitted to: whole styles, situations of the other styles, and the old test set by style. Last, all of them.

    A message that stands among the fitted ones too is left out, and so are the styles that were read strictly (see `strictly`).
    """
    rows = [row for row in rows if row.style not in STRICT_STYLES]
    seen = {row.user for row in rows if row.is_for_fitting}
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
    """Replies of small models that were read strictly and never fitted: all, and those of users of whom no reply was."""
    fitted = {row.situation for row in rows if row.is_for_sense}
    apart = [row for row in rows if row.style in STRICT_STYLES and not row.is_for_sense]
    return {"replies never fitted": apart, "users never fitted": [row for row in apart if row.situation not in fitted]}


def whole_styles(rows: Sequence[Labelled]) -> set[str]:
    """The styles of which nothing is for fitting."""
    return {row.style for row in rows} - {row.style for row in rows if row.is_for_fitting}
