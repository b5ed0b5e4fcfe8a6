"""A real server of the simulated users, in a process of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SESSIONS = 8


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def served(root: Path, where: Path, *command: str) -> Iterator[str]:
    """A server in a process of its own, started in a project at `where`; PORT stands for its port."""
    for name in ("params.yaml", "dvc.yaml"):
        (where / name).write_text((root / name).read_text())
    port = free_port()
    started = (sys.executable, "-m", *(str(port) if part == "PORT" else part for part in command))
    surroundings = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(started, cwd=where, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            for _ in range(300):
                try:
                    urllib.request.urlopen(f"{address}/health", timeout=1).close()
                    break
                except OSError:
                    assert process.poll() is None, process.stdout and process.stdout.read()
                    time.sleep(0.2)
            yield address
        finally:
            process.terminate()


SERVE = ("rlver.flows.cli", "env", "serve", "--port", "PORT", "--sessions", str(SESSIONS))


def posted(url: str, path: str, body: bytes) -> tuple[int, Any]:
    asked = urllib.request.Request(f"{url}{path}", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)["detail"]


CREATE = b'{"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}'
