"""Writing answers down: each is on the disk before the page hears that it is saved. One process writes a file at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from components.evaluation.blind.answers import Row, Study, line_of, read_answers


class NotSaved(OSError):
    """An answer could not be written down; the file is as it was."""


class AnswerFile:
    """Rows in memory and on disk. Use as a context manager: it holds the file's lock, which goes with the process, however that ends."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path = path
        self.rows: list[Row] = []
        self._say = say
        self._file = -1
        self._size = 0

    def __enter__(self) -> AnswerFile:
        """Raises ValueError when another process has the file, BadFile when it is none of answers."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = read_answers(self.path)
        except BlockingIOError as error:
            os.close(self._file)
            raise ValueError(f"{self.path}: another `rlver blind` writes it; end that one, or name another file with --answers") from error
        except BaseException:
            os.close(self._file)
            raise
        if found.cut_off_bytes:
            self._say(
                f"{self.path}: the last line was cut off while it was written and never confirmed; its {found.cut_off_bytes} bytes go"
            )
            os.ftruncate(self._file, found.whole_bytes)
            os.fsync(self._file)
        self.rows, self._size = found.rows, found.whole_bytes
        folder = os.open(self.path.parent, os.O_RDONLY)  # the name of a new file must last too
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def begin(self, study: Study) -> None:
        """Write what is compared into a new file. Raises ValueError when this one was begun with something else."""
        begun = next((row for row in self.rows if isinstance(row, Study)), None)
        if begun is None:
            self.add(study)
        elif begun != study:
            raise ValueError(
                f"{self.path} holds answers to another comparison ({begun.a} and {begun.b}, {len(begun.pairs)} pairs; {_first_change(begun, study)}): "
                "name another file with --answers"
            )

    def add(self, row: Row) -> None:
        """Returns when the row is on the disk. Raises NotSaved, and then none of it is."""
        line = line_of(row)
        try:
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError(f"{written} of {len(line)} bytes were written")
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise NotSaved(f"{self.path}: not saved: {error.strerror or error}") from error
        self._size += len(line)
        self.rows.append(row)


def _first_change(begun: Study, study: Study) -> str:
    changed = [name for name in Study.model_fields if getattr(begun, name) != getattr(study, name)]
    if changed[0] == "pairs":
        return "the dialogues are others"
    return f"{changed[0]} was {getattr(begun, changed[0])} and is {getattr(study, changed[0])}"
