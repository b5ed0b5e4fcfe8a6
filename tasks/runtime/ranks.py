"""One stage in several processes of this machine, its ranks: starts them, and ends all of them when one dies or this one is asked to leave.

torchrun does that too, but listens for the whole network, on a port without a key, and unpickles what comes. Ranks started here find each
other by a file in a folder that only its owner can open, and talk over loopback.
"""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO
from uuid import uuid4

from rlver.tasks.runtime import environment

GRACE_S = 5.0  # a rank that waits for another one in native code does not hear SIGTERM
LOOK_EVERY_S = 0.1
FINAL = ("error: ", "interrupted: ")  # how the last line of a stage begins
TRACEBACK = "Traceback (most recent call last)"


def run(count: int, module: str, arguments: Sequence[str], grace_s: float = GRACE_S) -> int:
    """Run `python -m module` with `arguments` and `--rank R --meeting FILE`, for R = 0 .. count - 1, until all have ended.

    Returns 0 when all ended well. When one fails, the others are ended; then its own last line is shown and its exit status returned.
    Raises RuntimeError for one that said nothing (as after a signal). What interrupts this call, Ctrl-C included, ends all of them.
    """
    group = _Ranks()
    with tempfile.TemporaryDirectory(prefix="rlver-ranks-") as folder:  # mode 700
        try:
            for rank in range(count):
                group.start(rank, count, [sys.executable, "-m", module, *arguments, f"--rank={rank}", f"--meeting={folder}/meeting"])
            group.wait(grace_s)
        finally:
            group.end(grace_s)
    return group.outcome()


def end_with_the_launcher() -> None:
    """Call in a rank: it ends at once when the process that started it is gone, even by SIGKILL. Nobody would end it otherwise."""

    def wait() -> None:
        os.read(0, 1)  # the launcher never writes
        os._exit(1)

    threading.Thread(target=wait, daemon=True, name="launcher").start()


def loopback() -> str:
    """The name of this machine's interface to itself. Raises RuntimeError without one."""
    names = [name for _, name in socket.if_nameindex()]
    for name in ("lo", "lo0"):
        if name in names:
            return name
    raise RuntimeError(f"several processes need the network interface lo, and there is only {', '.join(names)}: set train.processes to 1")


class _Ranks:
    """The processes, and what they said at their end."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._readers: list[threading.Thread] = []
        self._signs: list[tuple[int, str]] = []  # rank and line of an error, in the order in which they came: others follow the first
        self._ended_alone: dict[int, int] = {}  # rank to exit status, of those that ended before `end`
        self._name = uuid4().hex

    def start(self, rank: int, count: int, command: Sequence[str]) -> None:
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
        interface = loopback()
        process = subprocess.Popen(
            command,
            env=environment.for_child(
                {name: str(value) for name, value in place.items()}
                | {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface, "RLVER_RUN": self._name},
                jobs=count,
            ),
            stdin=subprocess.PIPE,  # never written to: its end tells a rank that this process is gone
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        reader = threading.Thread(target=self._read, args=(rank, process.stderr), daemon=True)
        self._processes.append(process)
        self._readers.append(reader)
        reader.start()

    def wait(self, grace_s: float) -> None:
        """Until all have ended, or one has failed; who complained first may still be leaving, and has its own status to say."""
        while len(self._ended_alone) < len(self._processes) and not any(self._ended_alone.values()):
            time.sleep(LOOK_EVERY_S)
            self._look()
        end = time.monotonic() + grace_s
        while self._signs and self._signs[0][0] not in self._ended_alone and time.monotonic() < end:
            time.sleep(LOOK_EVERY_S)
            self._look()

    def end(self, grace_s: float) -> None:
        """SIGTERM to whoever still runs, then SIGKILL; a second Ctrl-C kills at once."""
        self._look()
        try:
            for process in self._processes:
                process.terminate()  # does nothing to one that has ended
            end = time.monotonic() + grace_s
            while time.monotonic() < end and any(process.poll() is None for process in self._processes):
                time.sleep(LOOK_EVERY_S / 2)
        finally:
            for process in self._processes:
                process.kill()
                process.wait()
            for reader in self._readers:
                reader.join(timeout=1.0)

    def outcome(self) -> int:
        """The exit status for all. Raises RuntimeError for a rank that failed without a line."""
        failed = {rank: status for rank, status in self._ended_alone.items() if status}
        if not failed:
            return 0
        # One that was killed says nothing, and the others say that it is gone. SIGABRT is how NCCL says that.
        killed = [rank for rank, status in failed.items() if status < 0 and status != -signal.SIGABRT]
        first = killed[0] if killed else self._signs[0][0] if self._signs else next(iter(failed))
        lines = [line for rank, line in self._signs if rank == first and line]
        if killed or not lines:
            raise RuntimeError(f"process {first} of {len(self._processes)} {_ending(failed.get(first, 1))}, so the others were ended")
        sys.stderr.write(lines[-1])
        return max(failed.get(first, 1), 1)

    def _look(self) -> None:
        for rank, process in enumerate(self._processes):
            if rank not in self._ended_alone and (status := process.poll()) is not None:
                self._ended_alone[rank] = status

    def _read(self, rank: int, stream: IO[bytes]) -> None:
        """Passes on what a rank says, progress bars too, and keeps its last line back: one of several is the reason."""
        for line in io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline=""):
            if line.startswith((*FINAL, TRACEBACK)):
                self._signs.append((rank, "" if line.startswith(TRACEBACK) else line))
            if not line.startswith(FINAL):
                sys.stderr.write(line)
                sys.stderr.flush()


def _ending(status: int) -> str:
    if status >= 0:
        return f"ended with status {status} (what it said is above)"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    return f"was ended by {name}{' (out of memory?)' if -status == signal.SIGKILL else ''}"
