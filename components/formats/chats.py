"""Files of chats that others wrote down: JSON lines or one JSON document, plain or gzipped, with or without a byte order mark.

The shapes in which others keep chats, brought into the two that components/formats/foreign.py reads: turns and messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rlver.components.domain.files import BadFile, read_unpacked, whole_characters
from rlver.components.formats.foreign import UnreadableChat


class ForeignChat(NamedTuple):
    """One JSON value and where it stands: the line, or in a document of several chats the place, from 1."""

    number: int
    value: Any


def read_chats(path: Path) -> list[ForeignChat]:
    """The JSON values of a file, one a chat. Raises BadFile with the line, also when there is none at all.

    A document is a list of chats, or one chat. A list of messages is one chat, on a line as in a document.
    """
    text = _text(path)
    chats = _document(text) or _lines(path, text)
    if not chats:
        raise BadFile(f"{path}:0: has no rows")
    return [ForeignChat(number, whole_characters(value)) for number, value in chats]


def _text(path: Path) -> str:
    content = read_unpacked(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadFile(f"{path}:{line}: is not UTF-8; save the file with that encoding") from error


def _document(text: str) -> list[ForeignChat]:
    """The chats of a text that is one JSON value over several lines, or a list of chats; [] for anything else."""
    lines = text.strip().split("\n", 1)
    if len(lines) == 1 and not text.lstrip().startswith("["):
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    several = isinstance(value, list) and not _is_chat(value)
    return [ForeignChat(number, one) for number, one in enumerate(value if several else [value], start=1)]


def _is_chat(values: list[Any]) -> bool:
    """Whether a list is one of messages, not one of chats, of which each has messages of its own."""
    rows = [value for value in values if isinstance(value, dict)]
    return any(name in row for row in rows for name in _ROLES) and not any(map(_holds_a_chat, rows))


def _holds_a_chat(row: dict[str, Any]) -> bool:
    has_list = any(isinstance(row.get(name), list) for name in _LISTS)
    return has_list or (any(name in row for name in _PROMPTS) and any(name in row for name in _COMPLETIONS))


def _lines(path: Path, text: str) -> list[ForeignChat]:
    chats = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            chats.append(ForeignChat(number, json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise BadFile(f"{path}:{number}: not valid JSON ({error}); chats are read from JSON lines or one JSON document") from error
    return chats


_LISTS = ("messages", "conversations", "conversation", "dialogue", "dialog", "history", "turns")
_PROMPTS, _COMPLETIONS = ("prompt", "query", "question", "instruction", "input"), ("completion", "response", "answer", "output", "reply")
_ROLES, _TEXTS = ("role", "from", "speaker", "author"), ("content", "value", "text", "message")
_USER = frozenset({"user", "human", "prompter", "seeker", "client", "customer", "patient", "usr", "speaker"})
_ASSISTANT = frozenset(
    {"assistant", "gpt", "chatgpt", "model", "bot", "ai", "supporter", "counselor", "counsellor", "therapist", "helper", "listener"}
)
_UNSEEN = frozenset({"system", "developer", "tool", "tool_call", "tool_response", "function", "function_call", "observation"})
_IDS = ("dialogue_id", "id", "conversation_id", "conversation_hash", "conv_id")


def known_shape(row: Any) -> Mapping[str, Any]:
    """`row` as a mapping with turns or messages, and its id as text. Raises UnreadableChat, which says what was found instead."""
    if isinstance(row, list):
        return {"messages": _messages(row)}
    if not isinstance(row, Mapping):
        raise UnreadableChat(f"expected a dialogue, got {type(row).__name__}")
    identity = next((str(row[key]) for key in _IDS if isinstance(row.get(key), str | int) and row[key] != ""), None)
    rest = {key: value for key, value in row.items() if key not in (*_LISTS, *_IDS)} | ({"id": identity} if identity else {})
    if "messages" not in row and _is_ours(row.get("turns")):
        return {**rest, "turns": row["turns"]}
    name = next((name for name in _LISTS if isinstance(row.get(name), list)), None)
    if name == "history" and any(isinstance(message, Mapping) and "emotion-point" in message for message in row["history"]):
        raise UnreadableChat("looks like a recorded SAGE dialogue; bring it in with `rlver import sage` first")
    exchange = _exchange(row) if name in (None, "history") else None
    if exchange is None and name is None:
        raise UnreadableChat(
            f"expected turns, messages, conversations, or prompt and completion, got the keys {', '.join(sorted(map(str, row))) or 'none'}"
        )
    said = [*(_messages(row[name]) if name else []), *(exchange or [])]
    return {**rest, "messages": said}


def _is_ours(turns: Any) -> bool:
    return isinstance(turns, list) and (not turns or any(isinstance(turn, Mapping) and "user" in turn for turn in turns))


def _exchange(row: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """The messages of one prompt and its completion, each a text or a list of messages."""
    prompt, completion = (next((row[name] for name in names if row.get(name)), None) for names in (_PROMPTS, _COMPLETIONS))
    if prompt is None or completion is None:
        return None
    if prompt is row.get("instruction") and isinstance(row.get("input"), str) and row["input"]:
        prompt = f"{prompt}\n{row['input']}"
    said = []
    for role, text in (("user", prompt), ("assistant", completion)):
        said += _messages(text) if isinstance(text, list) else [{"role": role, "content": str(text)}]
    return said


def _messages(messages: Sequence[Any]) -> list[dict[str, str]]:
    """Messages with role user or assistant and a text; what was never seen is left out."""
    said: list[dict[str, str]] = []
    for number, message in enumerate(messages, start=1):
        if isinstance(message, list) and len(message) == 2 and all(text is None or isinstance(text, str) for text in message):
            pair = zip(("user", "assistant"), message, strict=True)
            said += [{"role": role, "content": text} for role, text in pair if text is not None]
            continue
        if not isinstance(message, Mapping):
            raise UnreadableChat(f"message {number}: expected role and content, got {type(message).__name__}")
        role = _role(message, number)
        text = _shaped_text(message, number) if role else None
        if role and text is not None:
            said.append({"role": role, "content": text})
    return said


def _role(message: Mapping[str, Any], number: int) -> str | None:
    """user or assistant; None for who speaks unseen."""
    role = next((message[name] for name in _ROLES if message.get(name) is not None), None)
    spoken = role.strip().lower() if isinstance(role, str) else ""
    if spoken in _UNSEEN:
        return None
    if spoken in _USER:
        return "user"
    if spoken in _ASSISTANT:
        return "assistant"
    raise UnreadableChat(f"message {number}: the role must be user or assistant, got {role!r}")


def _shaped_text(message: Mapping[str, Any], number: int) -> str | None:
    """The text of a message: a string, or the text parts of a list. None for a message without content, such as a tool call."""
    content = next((message[name] for name in _TEXTS if message.get(name) is not None), None)
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, str | Mapping) for part in content):
        texts = [part if isinstance(part, str) else part.get("text") for part in content]
        return "".join(text for text in texts if isinstance(text, str))
    raise UnreadableChat(f"message {number}: expected text, got {type(content).__name__}")
