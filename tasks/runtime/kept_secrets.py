"""Secrets that lie on disk: the `.env` file of a project, and the keys of servers that were started here, a file each.

Nothing here looks at the environment: which value counts, and which server gets which key, is decided in `environment`.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from io import StringIO
from pathlib import Path

from dotenv.parser import parse_stream


def read_dotenv(path: Path) -> dict[str, str]:
    """The variables of a file as python-dotenv reads it, nothing in them replaced; empty ones are left out.

    Raises ValueError for what no variable can be, without a word of it: it may be a key.
    """
    if not path.is_file():
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8; save it with that encoding") from error
    values = {}
    for binding in parse_stream(StringIO(text)):
        if binding.error or "\0" in binding.original.string:
            raise ValueError(f"{path}:{binding.original.line}: expected NAME=value without null characters")
        if binding.key and binding.value:
            values[binding.key] = binding.value
    return values


def new_key() -> str:
    """Of the form `user:password`, as Prefect wants it; nobody guesses it."""
    return f"rlver:{secrets.token_urlsafe(32)}"


def key_file(folder: Path, port: int) -> Path:
    """Where the key of the server at a loopback port is kept: with one file a port, a key goes to the server it was made for."""
    return folder / f"{port}.key"


def keep_key(folder: Path, port: int) -> str:
    """The key of the server to be started at `port`: the one of last time, so that browsers stay logged in; a new one where there is none or
    others could read it. Its file is its owner's alone."""
    file = key_file(folder, port)
    if file.is_file() and not file.stat().st_mode & 0o077 and (key := file.read_text(encoding="utf-8").strip()):
        return key
    folder.mkdir(parents=True, exist_ok=True)
    key = new_key()
    handle, made = tempfile.mkstemp(dir=folder, prefix=file.name)  # of mode 600 from the start
    with os.fdopen(handle, "w", encoding="utf-8") as kept:
        kept.write(f"{key}\n")
    Path(made).replace(file)
    return key


def find_key(folder: Path, url: str) -> str | None:
    """The key that `folder` keeps for the server at `url`, which must be on this machine; None where it keeps none."""
    here = re.fullmatch(r"http://(?:127\.0\.0\.1|localhost):(\d+)(?:/.*)?", url)
    file = key_file(folder, int(here[1])) if here else None
    return (file.read_text(encoding="utf-8").strip() or None) if file and file.is_file() else None
