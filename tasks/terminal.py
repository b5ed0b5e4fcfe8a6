"""What a terminal is shown: everything that this process writes to standard output and standard error is printable.

Names, replies and messages come from models, servers and files of others, and a terminal obeys what is in them: it can be made to erase
what was shown, to set its title, to fill the clipboard. Done once, where the streams are set up, so that no command can forget it. Our own
bars say that they draw; those of libraries are all tqdm's, and keep its moves of the cursor.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO, cast

from components.printable import printable

_BARS = "tqdm."
_MOVES = re.compile("(\r|\x1b\\[A)")


class PrintableStream(io.TextIOBase):
    """A stream that passes on printable text only. It has no `buffer`: bytes would go past it."""

    def __init__(self, target: TextIO) -> None:
        self._target = target

    def write(self, text: str) -> int:
        is_bar = sys._getframe(1).f_globals.get("__name__", "").startswith(_BARS)
        self._target.write("".join(map(_but_moves, _MOVES.split(text))) if is_bar else printable(text))
        return len(text)

    def draw(self, text: str) -> None:
        """Text that the terminal is to obey."""
        self._target.write(text)

    def flush(self) -> None:
        if not self._target.closed:
            self._target.flush()

    @property
    def closed(self) -> bool:
        return self._target.closed

    def isatty(self) -> bool:
        return self._target.isatty()

    def fileno(self) -> int:
        return self._target.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._target.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._target.errors


@contextmanager
def printable_output() -> Iterator[None]:
    """Inside, standard output and standard error take printable text only; what the encoding lacks is shown by its number."""
    with redirect_stdout(_printable(sys.stdout)), redirect_stderr(_printable(sys.stderr)):
        yield


def draw(stream: TextIO, text: str) -> None:
    """Write what the terminal behind `stream` is to obey."""
    if isinstance(stream, PrintableStream):
        stream.draw(text)
    else:
        stream.write(text)


def _but_moves(part: str) -> str:
    return part if _MOVES.fullmatch(part) else printable(part)


def _printable(stream: TextIO) -> TextIO:
    if isinstance(stream, PrintableStream):
        return stream
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return cast(TextIO, PrintableStream(stream))
