"""Progress of long work on stderr: a bar that is redrawn on a terminal, a line every tenth of the way anywhere else."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO, TypeVar

from rlver.components.domain.emotion import SUCCESS
from rlver.components.domain.printable import printable
from rlver.components.domain.transcript import Dialogue
from rlver.tasks.runtime.terminal import draw

Item = TypeVar("Item")
_WIDTH = 24
_COSTS_EVERY_S = 2.0
_STREAM = ContextVar[TextIO | None]("_STREAM", default=None)


@contextmanager
def shown_on(stream: TextIO) -> Iterator[None]:
    """Progress that names no stream goes to this one inside, in place of stderr."""
    before = _STREAM.set(stream)
    try:
        yield
    finally:
        _STREAM.reset(before)


class _Progress:
    """How much of the work is done, and where that is shown."""

    def __init__(self, total: int, stream: TextIO | None, clock: Callable[[], float]) -> None:
        self.total, self.stream = total, stream or _STREAM.get() or sys.stderr
        self._clock, self._began = clock, clock()
        self._done = self._before = self._shown = 0  # of those done: by an earlier run; when the last line was written, in tenths

    def say(self, line: str) -> None:
        """A line of its own, if there is anything to say."""
        if line:
            self.stream.write(line + "\n")
            self.stream.flush()

    def close(self) -> None:
        """The bar of a terminal stays as it is."""
        if self.stream.isatty() and self._done:
            self.stream.write("\n")
            self.stream.flush()

    def _show(self, line: str) -> None:
        if self.stream.isatty():
            draw(self.stream, f"\r\x1b[2K{printable(line[: shutil.get_terminal_size().columns - 1])}")
            self.stream.flush()
        elif (tenths := self._done * 10 // self.total) > self._shown:
            self._shown = tenths
            self.say(line)

    def _bar(self) -> str:
        filled = _WIDTH * self._done // max(1, self.total)
        return f"{'█' * filled}{'░' * (_WIDTH - filled)} {self._done}/{self.total}"

    def _time_left(self) -> str:
        if self._done == self._before:
            return "ETA –"
        left_s = int((self._clock() - self._began) / (self._done - self._before) * (self.total - self._done))
        return f"ETA {left_s // 60}:{left_s % 60:02d}"


class DialogueProgress(_Progress):
    """Counts finished dialogues and shows the mean final emotion, the success rate and the time left."""

    def __init__(
        self,
        total: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        costs: Callable[[], str] = lambda: "",
    ) -> None:
        super().__init__(total, stream, clock)
        self._costs, self._said, self._said_at = costs, "", -math.inf
        self._finals: list[int] = []

    def add(self, dialogue: Dialogue, held_now: bool = True) -> None:
        """Count a dialogue; one from an earlier, interrupted run says nothing about the speed of this one."""
        self._done += 1
        self._before += not held_now
        if dialogue.emotion_final is not None:
            self._finals.append(dialogue.emotion_final)
        if held_now or self.stream.isatty():
            self._show(self.line())

    def line(self) -> str:
        return f"{self._bar()}  {self._measures()}  {self._time_left()}  {self._money()}".rstrip()

    def _measures(self) -> str:
        if not self._finals:
            return "emotion –  success –"
        success = sum(final >= SUCCESS for final in self._finals) / len(self._finals)
        return f"emotion {sum(self._finals) / len(self._finals):.1f}  success {success:.0%}"

    def _money(self) -> str:
        """Adding up many calls takes time, so not at every dialogue; but at the last."""
        if self._done == self.total or self._clock() - self._said_at >= _COSTS_EVERY_S:
            self._said, self._said_at = self._costs(), self._clock()
        return self._said


class Steps(_Progress):
    """Counts pieces of work of one kind, for example `dialogues judged`."""

    def __init__(self, total: int, what: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(total, stream, clock)
        self.what = what

    def step(self) -> None:
        self._done += 1
        self._show(f"{self._bar()} {self.what}  {self._time_left()}")
        if self._done == self.total:
            self.close()


def counted(items: Sequence[Item], what: str, stream: TextIO | None = None) -> Iterator[Item]:
    """The items one by one, each counted when the next is asked for. Of a single one there is nothing to tell."""
    if len(items) == 1:
        yield items[0]
        return
    steps = Steps(len(items), what, stream)
    for item in items:
        yield item
        steps.step()
