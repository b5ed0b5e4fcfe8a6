"""A server of `rlver` as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]


@contextmanager
def announced(project: Path, address: str, *arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process of `rlver ARGUMENTS` and the address it says, the first group of the pattern `address`. Killed at the end."""
    command = (sys.executable, "-m", "rlver.flows.cli", *arguments)
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **environment}
    process = subprocess.Popen(command, cwd=project, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = ""
    try:
        for line in process.stdout:
            said += line
            if found := re.search(address, line):
                break
        else:
            raise AssertionError(f"the server ended: {said}")
        yield process, found[1]
    finally:
        process.kill()
        process.wait()
