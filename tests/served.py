"""A running `rlver` beside a test, and waiting for what it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def wait_for(what: Callable[[], Any], seconds: float) -> Any:
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"nothing after {seconds} s"
        time.sleep(0.05)
    return found


def processes_with(words: bytes) -> list[int]:
    """The processes in whose command line these words stand; a NUL stands between two of them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if words in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


@contextmanager
def rlver(*arguments: str, root: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A running `rlver`, interrupted at the end."""
    command = (sys.executable, "-m", "rlver.flows.cli", *arguments)
    package = str(Path(__file__).parents[1])
    values = {**os.environ, "PYTHONPATH": package, "PYTHONUNBUFFERED": "1", **environment}
    with subprocess.Popen(command, cwd=root, env=values, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
