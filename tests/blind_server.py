"""`rlver blind` as a process of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from announced import announced

SERVE = ("one.jsonl", "other.jsonl", "--answers", "kept/a.jsonl", "--port", "0")


@contextmanager
def server(project: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`rlver blind …` and its address. Killed at the end."""
    with announced(project, r"open (http://\S+/)", "blind", *arguments) as (process, address):
        assert httpx.get(address, trust_env=False).is_success, "it is said once it listens"
        yield process, address
