"""`rlver blind` as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[1]


@contextmanager
def server(project: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`rlver blind …` and its address. Killed at the end."""
    command = (sys.executable, "-m", "rlver.flows.cli", "blind", *arguments)
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
        assert httpx.get(address[1], trust_env=False).is_success, "it is said once it listens"
        yield process, address[1]
    finally:
        process.kill()
        process.wait()
