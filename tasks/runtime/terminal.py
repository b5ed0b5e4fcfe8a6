"""What a terminal is shown: everything that this process writes to standard output and standard error is printable.

Names, replies and messages come from models, servers and files of others, and a terminal obeys what is in them: it can be made to erase
what was shown, to set its title, to fill the clipboard. Done once, where the streams are set up, so that no command can forget it. Our own
bars say that they draw. The bars and logs of libraries (DVC, Prefect, transformers) are drawn by three packages, whose moves and colours
stay, and nothing else that they write.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO, cast

from rlver.components.domain.printable import printable

_COLOURS = re.compile(r"(\x1b\[[\d;]*m)")
_DRAWN_BY = {"tqdm": re.compile(r"(\r|\x1b\[(?:A|[\d;]*m))"), "rich": _COLOURS, "colorama": _COLOURS}  # package -> what stays of its own


class PrintableStream(io.TextIOBase):
    """A stream that passes on printable text only. It has no `buffer`: bytes would go past it."""

    def __init__(self, target: TextIO) -> None:
        self._target = target

    def write(self, text: str) -> int:
        package = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
        drawn = _DRAWN_BY.get(package)
        parts = drawn.split(text) if drawn else [text]  # every second one is drawn
        self._target.write("".join(part if place % 2 else printable(part) for place, part in enumerate(parts)))
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


def _printable(stream: TextIO) -> TextIO:
    if isinstance(stream, PrintableStream):
        return stream
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return cast(TextIO, PrintableStream(stream))
