"""One child process in a group of its own: its output line by line, and nothing of it left behind when it is ended early.

A terminal's Ctrl-C does not reach the child, because it has its own session: the group is interrupted from here, so that a stage can
save what it has, and is killed if it does not end.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from rlver.components.domain.printable import printable

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_S = 20.0
PROGRESS_EVERY_S = 5.0
LOOK_EVERY_S = 0.5
# Between an interpreter and its arguments, with our process id: the kernel ends the child when the process that started it is gone, even by
# `kill -9`; only Linux offers that.
WITH_ITS_PARENT = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


class TookTooLong(RuntimeError):
    """A child was ended because its time was up."""


def interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def interrupt_is_handled() -> None:
    """Let the exit status be what main returns, after a KeyboardInterrupt that was caught.

    CPython notes one that leaves the text given to `exec` or `eval` (a library's dataclass is made so) and ends `python -m` by SIGINT, even
    if it was caught further out. It forgets the note when it evaluates another text, as it does to make a namedtuple.
    """
    namedtuple("Evaluated", ())


@contextmanager
def handling(handlers: Mapping[signal.Signals, Callable[..., Any]]) -> Iterator[None]:
    """Inside, these signals have these handlers; nothing is changed outside the main thread, whose they are.

    SIGHUP comes when a terminal is closed. It stays ignored where it is, as under `nohup`. Of several only the first one counts: the shell
    and the system may both send it, and a second signal would kill at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = {
        number: handler for number, handler in handlers.items() if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
    }
    before = {number: signal.signal(number, partial(_once, one) if number == signal.SIGHUP else one) for number, one in heard.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) != signal.SIG_IGN:  # after a SIGHUP
                signal.signal(number, handler)


def _once(handler: Callable[..., Any], number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    handler(number, frame)


def terminated_like_interrupted() -> AbstractContextManager[None]:
    """SIGTERM and SIGHUP do what Ctrl-C does: what was begun is ended in order, servers and children too."""
    return handling({signal.SIGTERM: interrupt, signal.SIGHUP: interrupt})


class Stop:
    """Ctrl-C for children that other threads run, since it reaches the main thread only. `asked`: how often; `signals`: those that came."""

    def __init__(self) -> None:
        self.asked = 0
        self.signals: list[int] = []

    def raise_if_asked(self, times: int = 1) -> None:
        if max(self.asked, len(self.signals)) >= times:
            raise KeyboardInterrupt

    def noticing(self) -> AbstractContextManager[None]:
        """Note SIGINT, SIGTERM and SIGHUP, whoever handles them: what a handler raises is lost where Python ignores it, as in a finaliser."""
        handled = {number: handler for number in ENDING if callable(handler := signal.getsignal(number))}
        handled.setdefault(signal.SIGHUP, interrupt)  # nobody handles it in a run that Prefect started

        def note(number: int, frame: FrameType | None) -> None:
            self.signals.append(number)
            handled[signal.Signals(number)](number, frame)

        return handling(dict.fromkeys(handled, note))


def run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    on_line: Callable[[str], None],
    grace_s: float = GRACE_S,
    progress_every_s: float = PROGRESS_EVERY_S,
    stop: Stop | None = None,
    limit_s: float | None = None,
) -> int:
    """Run `command` and return its exit status (negative: the number of the signal that ended it).

    `on_line` gets each line of stdout and stderr as it comes. A progress bar that redraws itself (lines ended by a carriage return)
    is passed on at most every `progress_every_s` seconds. Whatever ends this call early, Ctrl-C included, ends the whole group;
    `stop`, asked by another thread, does what Ctrl-C does. After `limit_s` seconds the group is ended and TookTooLong raised.
    """
    stop = stop or Stop()
    end = None if limit_s is None else time.monotonic() + limit_s
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        for line in _lines(process.stdout.fileno(), progress_every_s, stop, end):
            on_line(line)
        return process.wait()
    except BaseException:
        end_group(process, grace_s, stop)
        raise
    finally:
        process.stdout.close()


def end_group(process: subprocess.Popen[bytes], grace_s: float = GRACE_S, stop: Stop | None = None) -> None:
    """Interrupt the process's group, wait, then terminate and kill what is left of it. A second Ctrl-C kills at once."""
    try:
        for number, wait_s in ((signal.SIGINT, grace_s), (signal.SIGTERM, grace_s / 4), (signal.SIGKILL, 5.0)):
            if not _signal_group(process.pid, number):
                break
            _wait_for_group(process, wait_s, stop or Stop())
    except BaseException:
        _signal_group(process.pid, signal.SIGKILL)
        raise
    finally:
        process.poll()


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def _wait_for_group(process: subprocess.Popen[bytes], wait_s: float, stop: Stop) -> None:
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        process.poll()
        if not _signal_group(process.pid, 0):
            return
        stop.raise_if_asked(times=2)
        time.sleep(0.05)


def _lines(descriptor: int, progress_every_s: float, stop: Stop, end: float | None) -> Iterator[str]:
    pending, last_progress = b"", -progress_every_s
    while chunk := _read(descriptor, stop, end):
        *pieces, pending = (pending + chunk).replace(b"\r\n", b"\n").split(b"\n")
        for piece in pieces:
            yield _text(piece.rstrip(b"\r").rpartition(b"\r")[2])
        drawn = pending.removesuffix(b"\r").rpartition(b"\r")[0]  # a last \r may be half of a \r\n whose \n comes later
        if drawn:
            pending = pending[len(drawn) + 1 :]
            if time.monotonic() - last_progress >= progress_every_s and drawn.strip():
                last_progress = time.monotonic()
                yield _text(drawn.strip(b"\r").rpartition(b"\r")[2])
    if pending.strip():
        yield _text(pending)


def _read(descriptor: int, stop: Stop, end: float | None) -> bytes:
    """What has come, waiting for it; empty at the end. Raises KeyboardInterrupt when `stop` is asked, TookTooLong after `end`."""
    readable: list[int] = []
    while not readable:
        stop.raise_if_asked()
        if end is not None and time.monotonic() > end:
            raise TookTooLong
        readable, _, _ = select.select([descriptor], [], [], LOOK_EVERY_S)
    return os.read(descriptor, 65536)


def _text(raw: bytes) -> str:
    return printable(raw.decode("utf-8", errors="replace").rstrip())
