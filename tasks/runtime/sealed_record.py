"""The record of the sealed test, a file for git: who opened it, and who looked at it afterwards.

A look is one process that read sealed personas, or dialogues with them, however many files it read; it has one line. Lines are written under
a lock and the file is replaced whole, so that two at once get two numbers. A look that cannot be written down is an error.
"""

from __future__ import annotations

import csv
import datetime
import io
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TypeVar

from rlver.components.domain.files import InUse, alone_with, write_text_atomically
from rlver.components.domain.looks import listening

OPENINGS = Path("sealed-openings.csv")
COLUMNS = ("opening", "date", "seed", "personas", "sha256", "why")
LOOK = "look"
_TRIES, _PAUSE = 200, 0.05  # seconds between them

Rows = list[list[str]]
T = TypeVar("T")


def record_opening(seed: int, count: int, sha256: str, why: str) -> int:
    """Write the line of an opening; returns its number, from 1."""

    def added(rows: Rows) -> int:
        number = 1 + sum(row[0].isdigit() for row in rows)
        rows.append([str(number), _today(), str(seed), str(count), sha256, why])
        return number

    return _change(nearest_record(), added)


def counted(command: str) -> AbstractContextManager[None]:
    """Inside, what `command` reads of the sealed test is a look."""
    return listening(_Look(command))


class _Look:
    """The line of one process: written at the first reading, and again where a later one knows more."""

    def __init__(self, command: str) -> None:
        self._command, self._path, self._name = command, Path(), ""
        self._personas: set[str] = set()
        self._policies: set[str] = set()
        self._alone = threading.Lock()

    def __call__(self, personas: set[str], policies: set[str]) -> None:
        with self._alone:
            if self._name and personas <= self._personas and policies <= self._policies:
                return
            self._personas |= personas
            self._policies |= policies
            self._path = self._path if self._name else nearest_record()
            self._name = _change(self._path, self._written)

    def _written(self, rows: Rows) -> str:
        mine = next((row for row in rows if row[0] == self._name), None) if self._name else None
        if mine is None:
            mine = [f"{LOOK} {1 + sum(row[0].startswith(LOOK) for row in rows)}", _today(), "", "", "", ""]
            rows.append(mine)
        said = ", ".join(sorted(self._policies)) or "no policy named"
        mine[3], mine[5] = str(len(self._personas)), f"looked at by {self._command}, {' '.join(said.split())}"
        return mine[0]


def nearest_record() -> Path:
    """The record here or in a folder above; where there is none, a new one here."""
    here = Path.cwd()
    return next((folder / OPENINGS for folder in (here, *here.parents) if (folder / OPENINGS).is_file()), here / OPENINGS)


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _change(path: Path, change: Callable[[Rows], T]) -> T:
    with ExitStack() as held:
        _wait_for(path, held)
        rows = [row for row in csv.reader(path.read_text("utf-8").splitlines()) if row][1:] if path.exists() else []
        result = change(rows)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([COLUMNS, *rows])
        write_text_atomically(path, text.getvalue())
    return result


def _wait_for(path: Path, held: ExitStack) -> None:
    """Alone with the record; another process has it for a moment only. Raises InUse after ten seconds."""
    for left in reversed(range(_TRIES)):
        try:
            held.enter_context(alone_with(path))
            return
        except InUse:
            if not left:
                raise
            time.sleep(_PAUSE)
