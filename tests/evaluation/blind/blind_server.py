"""`rlver blind` as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[3]


@contextmanager
def server(project: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`rlver blind …` and its address. Killed at the end."""
    command = (sys.executable, "-m", "flows.cli", "blind", *arguments)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = ""
    try:
        for line in process.stdout:
            said += line
            if address := re.search(r"open (http://\S+/)", line):
                break
        else:
            raise AssertionError(f"the server ended: {said}")
        await_answer(address[1])
        yield process, address[1]
    finally:
        process.kill()
        process.wait()


def await_answer(url: str) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            assert httpx.get(url, trust_env=False).is_success
            return
        except httpx.TransportError:
            assert time.monotonic() < end
            time.sleep(0.05)
