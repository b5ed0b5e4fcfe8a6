"""Writing answers down: each is on the disk before the page hears that it is saved. One process writes a file at a time.

A file that is open can be deleted, replaced or cut by somebody else, and what is written to it then goes nowhere, without an error. So
before each answer the name must still lead to the file that is written, with the size that it was left with. If it does not, all rows go
to a new file, with which it goes on.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from rlver.tasks.studies.blind.answers import Row, Study, check_regular, line_of, read_answers


class NotSaved(OSError):
    """An answer could not be written down; the file is as it was."""


class AnswerFile:
    """Rows in memory and on disk. Use as a context manager: it holds the file's lock, which goes with the process, however that ends."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path = path
        self.rows: list[Row] = []
        self._say = say
        self._said = ""
        self._file = -1
        self._size = 0

    def __enter__(self) -> AnswerFile:
        """Raises ValueError when another process has the file, BadFile when it is none of answers."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        check_regular(self.path)
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
        _keep_name(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_there():
            self._begin_again()
        os.close(self._file)

    def begin(self, study: Study) -> None:
        """Write what is compared into a new file. Raises ValueError when this one was begun with something else."""
        begun = next((row for row in self.rows if isinstance(row, Study)), None)
        if begun is None:
            self.add(study)
        elif begun != study and begun != study.without_words():
            raise ValueError(
                f"{self.path} holds answers to another comparison ({begun.a} and {begun.b}, {len(begun.pairs)} pairs; {_first_change(begun, study)}): "
                "name another file with --answers"
            )

    def add(self, row: Row) -> None:
        """Returns when the row is on the disk. Raises NotSaved, and then none of it is; what was saved before is."""
        if not self._is_there():
            raise NotSaved(self._begin_again())
        line = line_of(row)
        try:
            _write(self._file, line)
        except OSError as error:
            raise NotSaved(self._tell(f"{self.path}: not saved: {error.strerror or error}")) from error
        self._size += len(line)
        self.rows.append(row)

    def _is_there(self) -> bool:
        try:
            named = os.stat(self.path)
        except OSError:
            return False
        held = os.fstat(self._file)
        return os.path.samestat(named, held) and held.st_size == self._size

    def _begin_again(self) -> str:
        """Every row goes to a new file, of the same name if that is free. Returns what was said about it."""
        lost, content = self.path, b"".join(map(line_of, self.rows))
        try:
            path, file = _new_file(lost)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _write(file, content)
                _keep_name(path)
            except OSError:
                os.close(file)
                path.unlink(missing_ok=True)
                raise
        except OSError as error:
            return self._tell(
                f"{lost} was deleted, replaced or changed by somebody else, and no other file could be written ({error.strerror or error}): "
                "make room for it and leave this running; every answer that was saved is still known here"
            )
        os.close(self._file)
        self.path, self._file, self._size = path, file, len(content)
        return self._tell(f"{lost} was deleted, replaced or changed by somebody else: every answer is in {path}, which is gone on with")

    def _tell(self, message: str) -> str:
        if message != self._said:
            self._say(message)
        self._said = message
        return message


def _write(file: int, content: bytes) -> None:
    """All of it, on the disk. Raises OSError, and then none of it is there, unless the disk refuses that too."""
    size = os.fstat(file).st_size
    try:
        written = os.write(file, content) if content else 0
        if written < len(content):
            raise OSError(f"{written} of {len(content)} bytes were written")
        os.fsync(file)
    except OSError:
        with suppress(OSError):  # a rest that stays is seen by its size before the next answer
            os.ftruncate(file, size)
        raise


def _new_file(path: Path) -> tuple[Path, int]:
    """An empty file of that name, or of the name with the first number that is free, open for writing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        free = path if number == 1 else path.with_name(f"{path.stem}.{number}{path.suffix}")
        with suppress(FileExistsError):
            return free, os.open(free, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    raise AssertionError("numbers do not end")


def _keep_name(path: Path) -> None:
    """The name of a new file must last too."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _first_change(begun: Study, study: Study) -> str:
    changed = [name for name in Study.model_fields if getattr(begun, name) != getattr(study, name)]
    if changed[0] == "pairs":
        return "the dialogues are others"
    return f"{changed[0]} was {getattr(begun, changed[0])} and is {getattr(study, changed[0])}"
