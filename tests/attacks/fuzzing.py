"""A small fuzzer for what reads foreign bytes: valid documents, mutated, and what a reader may do with each.

A reader may return, or raise an error that `rlver` shows as one line in words of this project: ValueError, OSError or RuntimeError, but
not one of Python's or a library's own (a RecursionError is a RuntimeError, a UnicodeEncodeError a ValueError; neither names a file). It has
one second of CPU time for each input, of which it may need more twice, and 200 MiB for all of them together.

Inputs are drawn by number, each from a seed of its own, and are the same in every run. Nothing is shrunk: of every kind of fault the shortest input is shown, so that one run tells all that falls.
"""

from __future__ import annotations

import json
import re
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import process_time
from types import FrameType

import pytest
from mutation import Inputs
from pydantic import ValidationError

from rlver.components.domain.printable import one_line

MOST_CPU_S = 1.0
TRIES = 3
MOST_GROWTH_MIB = 200
FORESEEN = (ValueError, OSError, RuntimeError)  # what flows/cli.py shows as one line
UNWORDED = (UnicodeError, RecursionError, NotImplementedError, json.JSONDecodeError, ValidationError)

times = pytest.mark.parametrize("times", [100, pytest.param(10_000, marks=pytest.mark.slow)])


@dataclass
class Outcome:
    """How many inputs there were, how many could be read, the slowest, and of each kind of fault the shortest input."""

    tried: int = 0
    read: int = 0
    slowest_s: float = 0.0
    grown_mib: int = 0
    faults: dict[str, bytes] = field(default_factory=dict)

    def blame(self, fault: str, content: bytes) -> None:
        fault = re.sub(r"0x[0-9a-f]+|\d+", "N", fault)
        if fault not in self.faults or len(content) < len(self.faults[fault]):
            self.faults[fault] = content


def fuzz(
    inputs: Inputs,
    read: Callable[[bytes], object],
    times: int,
    named: str = "",
    most_cpu_s: float = MOST_CPU_S,
    some_refused: bool = True,
) -> Outcome:
    """Give `read` so many inputs; each error must hold `named`, the name of the file. Fails with every kind of fault there was."""
    outcome = Outcome()
    memory = Memory()

    begun_s = process_time()
    for number in range(times):
        content = inputs(Random(number))  # the same in every run, whatever was tried before it
        outcome.tried += 1
        _try(read, content, named, most_cpu_s, outcome)
        if (grown := memory.grown_mib()) > MOST_GROWTH_MIB:
            outcome.blame(f"memory grew by {grown} MiB", content)
            memory.start_again()
        outcome.grown_mib = max(outcome.grown_mib, grown)
    print(
        f"{outcome.tried} inputs in {process_time() - begun_s:.1f} s of CPU time, {outcome.read} read; slowest {outcome.slowest_s:.3f} s; "
        f"memory grew by {outcome.grown_mib} MiB"
    )
    assert not outcome.faults, "\n".join(
        f"- {fault}\n  {len(content)} bytes: {content[:300]!r}{'…' * (len(content) > 300)}"
        for fault, content in sorted(outcome.faults.items())
    )
    assert outcome.read > 0 and (outcome.read < outcome.tried or not some_refused), "some documents must be readable and some not"
    return outcome


class _TooSlow(BaseException):
    """Passes through every `except Exception` of the reader."""


@dataclass(frozen=True)
class _Attempt:
    taken_s: float
    read: bool
    slow: str | None  # where the work was stopped, as far as it is known; None: it was in time
    fault: str | None  # of another kind


def _try(read: Callable[[bytes], object], content: bytes, named: str, most_cpu_s: float, outcome: Outcome) -> None:
    """An input that is too slow is tried again: the first time may pay for imports, and a busy machine makes everything slow. Work that
    grows too fast with its input is too slow each time."""
    for _ in range(TRIES):
        attempt = _once(read, content, named, most_cpu_s)
        if attempt.slow is None:
            break
    else:
        outcome.blame(f"took more than {most_cpu_s:g} s, {TRIES} times{attempt.slow}", content)
    if attempt.fault:
        outcome.blame(attempt.fault, content)
    outcome.read += attempt.read
    outcome.slowest_s = max(outcome.slowest_s, attempt.taken_s)


def _once(read: Callable[[bytes], object], content: bytes, named: str, most_cpu_s: float) -> _Attempt:
    clock = _Clock(most_cpu_s)
    done, slow, fault = False, None, None
    begun_s = process_time()
    try:
        with clock.running():
            read(content)
        done = True
    except _TooSlow as error:
        slow = f", in {_where(error)}"
    except Exception as error:
        if fault := _fault_of(error, named):
            fault = f"{fault}, from {_where(error)}"
    taken_s = process_time() - begun_s
    if slow is None and (clock.rang or taken_s > most_cpu_s):
        slow = ""
    return _Attempt(taken_s, done, slow, fault)


def _fault_of(error: Exception, named: str) -> str | None:
    """Why this error is none that may be shown; None for a good one."""
    message = str(error)
    if not isinstance(error, FORESEEN) or isinstance(error, UNWORDED):
        return f"{type(error).__name__}: {one_line(message)[:120]!a}"
    if not message.strip():
        return f"{type(error).__name__} without a message"
    if named not in message:
        return f"the message does not name {named}: {type(error).__name__}: {one_line(message)[:120]!a}"
    return None


def _where(error: BaseException) -> str:
    """The last place of the product's own code that the error came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tests/" not in frame.filename]
    ours = [frame for frame in frames if "site-packages" not in frame.filename and "/lib/python" not in frame.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].name}" if ours else "the test"


class _Clock:
    """Raises _TooSlow in the middle of the work: whoever backtracks for hours is stopped too.

    Python drops an exception in a destructor or in a callback of weakref, and a reader may catch all: so it is noted that the time was up,
    and the work is stopped again as often as it goes on for as long. An import is left alone: half a module stays broken for all that
    come after.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s, self.rang = limit_s, False

    @contextmanager
    def running(self) -> Iterator[None]:
        before = signal.signal(signal.SIGPROF, self._ring)
        signal.setitimer(signal.ITIMER_PROF, self.limit_s, self.limit_s)
        try:
            yield
        finally:
            for _ in range(2):  # it may ring at the first
                with suppress(_TooSlow):
                    signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def _ring(self, _: int, frame: FrameType | None) -> None:
        self.rang = True
        while frame:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                return
            frame = frame.f_back
        raise _TooSlow


class Memory:
    """The highest resident memory since the start against that at the start, as Linux counts it."""

    def __init__(self) -> None:
        self.start_again()

    def start_again(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # forgets the highest so far
        self._at_start_kib = self._highest_kib()

    def grown_mib(self) -> int:
        return (self._highest_kib() - self._at_start_kib) // 1024

    @staticmethod
    def _highest_kib() -> int:
        with open("/proc/self/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
