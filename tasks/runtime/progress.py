"""Progress of long work on stderr: a bar that is redrawn on a terminal, a line every tenth of the way anywhere else."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO, TypeVar

from rlver.components.domain.emotion import SUCCESS
from rlver.components.domain.printable import printable
from rlver.components.domain.transcript import Dialogue
from rlver.tasks.runtime.terminal import draw

Item = TypeVar("Item")
_WIDTH = 24
_COSTS_EVERY_S = 2.0


class DialogueProgress:
    """Counts finished dialogues and shows the mean final emotion, the success rate and the time left."""

    def __init__(
        self,
        total: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        costs: Callable[[], str] = lambda: "",
    ) -> None:
        self.total = total
        self._costs, self._said, self._said_at = costs, "", -math.inf
        self.stream = sys.stderr if stream is None else stream
        self._clock, self._began = clock, clock()
        self._done = self._before = self._shown = 0
        self._finals: list[int] = []

    def add(self, dialogue: Dialogue, held_now: bool = True) -> None:
        """Count a dialogue; one from an earlier, interrupted run says nothing about the speed of this one."""
        self._done += 1
        self._before += not held_now
        if dialogue.emotion_final is not None:
            self._finals.append(dialogue.emotion_final)
        if self.stream.isatty():
            _redraw(self.stream, self.line())
        elif held_now and (self._done * 10 // self.total > self._shown or self._done == self.total):
            self._shown = self._done * 10 // self.total
            self.stream.write(self.line() + "\n")
            self.stream.flush()

    def line(self) -> str:
        return f"{_bar(self._done, self.total)}  {self._measures()}  {self._time_left()}  {self._money()}".rstrip()

    def close(self) -> None:
        if self.stream.isatty() and self._done:
            self.stream.write("\n")
            self.stream.flush()

    def say(self, line: str) -> None:
        """A line of its own, if there is anything to say; call after `close`."""
        if line:
            self.stream.write(line + "\n")
            self.stream.flush()

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

    def _time_left(self) -> str:
        return _time_left(self._clock() - self._began, self._done - self._before, self.total - self._done)


class Steps:
    """Counts pieces of work of one kind, for example `dialogues judged`."""

    def __init__(self, total: int, what: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.what, self._done, self._shown = total, what, 0, 0
        self._stream = sys.stderr if stream is None else stream
        self._clock, self._began = clock, clock()

    def step(self) -> None:
        self._done += 1
        line = f"{_bar(self._done, self.total)} {self.what}  {_time_left(self._clock() - self._began, self._done, self.total - self._done)}"
        if self._stream.isatty():
            _redraw(self._stream, line + ("\n" if self._done == self.total else ""))
        elif (tenths := self._done * 10 // self.total) > self._shown:
            self._shown = tenths
            self._stream.write(line + "\n")
            self._stream.flush()


def counted(items: Sequence[Item], what: str, stream: TextIO | None = None) -> Iterator[Item]:
    """The items one by one, each counted when the next is asked for. Of a single one there is nothing to tell."""
    if len(items) == 1:
        yield items[0]
        return
    steps = Steps(len(items), what, stream)
    for item in items:
        yield item
        steps.step()


def _bar(done: int, total: int) -> str:
    filled = _WIDTH * done // max(1, total)
    return f"{'█' * filled}{'░' * (_WIDTH - filled)} {done}/{total}"


def _time_left(elapsed_s: float, done: int, left: int) -> str:
    if not done:
        return "ETA –"
    left_s = int(elapsed_s / done * left)
    return f"ETA {left_s // 60}:{left_s % 60:02d}"


def _redraw(stream: TextIO, line: str) -> None:
    end = "\n" if line.endswith("\n") else ""
    draw(stream, f"\r\x1b[2K{printable(line.rstrip()[: shutil.get_terminal_size().columns - 1])}{end}")
    stream.flush()
