"""Files of chats that others wrote down: JSON lines or one JSON document, plain or gzipped, with or without a byte order mark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from components.files import BadFile, read_unpacked, whole_characters


class Chat(NamedTuple):
    """One JSON value and where it stands: the line, or in a document of several chats the place, from 1."""

    number: int
    value: Any


def read_chats(path: Path) -> list[Chat]:
    """The JSON values of a file, one a chat. Raises BadFile with the line, also when there is none at all.

    A document is a list of chats, or one chat. A list of messages is one chat, on a line as in a document.
    """
    text = _text(path)
    chats = _document(text) or _lines(path, text)
    if not chats:
        raise BadFile(f"{path}:0: has no rows")
    return [Chat(number, whole_characters(value)) for number, value in chats]


def _text(path: Path) -> str:
    content = read_unpacked(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadFile(f"{path}:{line}: is not UTF-8; save the file with that encoding") from error


def _document(text: str) -> list[Chat]:
    """The chats of a text that is one JSON value over several lines, or a list of chats; [] for anything else."""
    lines = text.strip().split("\n", 1)
    if len(lines) == 1 and not text.lstrip().startswith("["):
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    several = isinstance(value, list) and not _is_chat(value)
    return [Chat(number, one) for number, one in enumerate(value if several else [value], start=1)]


def _is_chat(values: list[Any]) -> bool:
    """Whether a list is one of messages, not one of chats."""
    return any(isinstance(value, dict) and any(name in value for name in ("role", "from", "speaker", "author")) for value in values)


def _lines(path: Path, text: str) -> list[Chat]:
    chats = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            chats.append(Chat(number, json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise BadFile(f"{path}:{number}: not valid JSON ({error}); chats are read from JSON lines or one JSON document") from error
    return chats
