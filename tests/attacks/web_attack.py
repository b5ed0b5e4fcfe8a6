"""A hostile page, and servers of the project that it would reach."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rlver.tasks.runtime import servers

REPOSITORY = Path(__file__).parents[2]
EVIL = "http://evil.example"
PREFLIGHT = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "content-type"}


def wait_for(what: Callable[[], Any], seconds: float) -> Any:
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"nothing after {seconds} s"
        time.sleep(0.3)
    return found


@contextmanager
def rlver(*arguments: str, root: Path, **values: str) -> Iterator[subprocess.Popen[str]]:
    """A running `rlver`, interrupted at the end."""
    command = (sys.executable, "-m", "rlver.flows.cli", *arguments)
    surroundings = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", **values}
    with subprocess.Popen(command, cwd=root, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def planned(what: Any, monkeypatch: pytest.MonkeyPatch) -> servers.PlannedServer:
    """The server that would be started."""
    seen: list[servers.PlannedServer] = []

    class Seen(Exception):
        pass

    def look(one: servers.PlannedServer) -> None:
        seen.append(one)
        raise Seen

    monkeypatch.setattr(servers, "serving", look)
    with pytest.raises(Seen), what():
        pass
    return seen[0]
