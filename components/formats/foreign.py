"""Chats that others wrote down, in whatever of the usual shapes, as recordings that can be appraised.

Files: JSON lines or one JSON document, plain or gzipped, with or without a byte order mark. Shapes: this project's transcripts,
`{"turns": [{"user": …, "assistant": …}]}`, lists of messages under any usual name, or a prompt with its completion. Everything but the words
is optional; what is missing stays unknown and is never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from rlver.components.domain.files import BadFile, read_unpacked, whole_characters
from rlver.components.domain.thinking import separate_thought
from rlver.components.domain.transcript import MOST_TOKENS, Turn

_LISTS = ("messages", "conversations", "conversation", "dialogue", "dialog", "history", "turns")
_BESIDE = ("completion", "response", "reply")
_PROMPTS, _COMPLETIONS = ("prompt", "query", "question", "instruction", "input"), ("completion", "response", "answer", "output", "reply")
_ROLES, _TEXTS = ("role", "from", "speaker", "author"), ("content", "value", "text", "message")
_USER = frozenset({"user", "human", "prompter", "seeker", "client", "customer", "patient", "usr", "speaker"})
_ASSISTANT = frozenset(
    {"assistant", "gpt", "chatgpt", "model", "bot", "ai", "supporter", "counselor", "counsellor", "therapist", "helper", "listener"}
)
_UNSEEN = frozenset({"system", "developer", "tool", "tool_call", "tool_response", "function", "function_call", "observation"})
_IDS = ("dialogue_id", "id", "conversation_id", "conversation_hash", "conv_id")

_Message = tuple[str, str]  # who speaks, user or assistant, and the text


class UnreadableChat(ValueError):
    """A row that is no dialogue in any of the shapes; the message says what was found."""


@dataclass(frozen=True)
class Recording:
    """Words without judgement: turns carry no emotion and no appraisal. None means that the source does not say."""

    dialogue_id: str
    persona_id: str
    hidden_need: str | None
    policy: str
    seed: int
    emotion_start: int | None
    error: str | None
    turns: tuple[Turn, ...]
    left_out: int  # messages at the end that nobody replied to


class ForeignChat(NamedTuple):
    """One JSON value and where it stands: the line, or in a document of several chats the place, from 1."""

    number: int
    value: Any


def read_chats(path: Path) -> list[ForeignChat]:
    """The JSON values of a file, one a chat. Raises BadFile with the line, also when there is none at all.

    A document is a list of chats, or one chat. A list of messages is one chat, on a line as in a document.
    """
    text = _text_of(path)
    chats = _document(text) or _lines(path, text)
    if not chats:
        raise BadFile(f"{path}:0: has no rows")
    return [ForeignChat(number, whole_characters(value)) for number, value in chats]


def _text_of(path: Path) -> str:
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


def recording_of(row: Any, name: str) -> Recording:
    """The recording of one chat; `name` identifies it if it has no id of its own. Raises UnreadableChat, which says what was found instead."""
    row = {"messages": row} if isinstance(row, list) else row
    if not isinstance(row, Mapping):
        raise UnreadableChat(f"expected a dialogue, got {type(row).__name__}")
    if "messages" not in row and _is_ours(row.get("turns")):
        turns, left_out = tuple(_turn(turn, number) for number, turn in enumerate(row["turns"], start=1)), 0
    else:
        turns, left_out = _paired(_said(row))
    error = _text(row, *(("error",) if "stop_reason" in row else ()), "failure")  # but for transcripts, `error` may be anything
    if not turns and error is None:
        raise UnreadableChat("there is no reply in it")
    identity = next((str(row[key]) for key in _IDS if isinstance(row.get(key), str | int) and row[key] != ""), name)
    return Recording(
        dialogue_id=identity,
        persona_id=_text(row, "persona_id") or identity,
        hidden_need=_text(row, "hidden_need"),
        policy=_text(row, "policy", "model") or "unknown",
        seed=_number(row, "seed") or 0,
        emotion_start=_number(row, "emotion_start"),
        error=error,
        turns=turns,
        left_out=left_out,
    )


def _said(row: Mapping[str, Any]) -> list[_Message]:
    """What was said in a row that is no transcript of ours."""
    name = next((name for name in _LISTS if isinstance(row.get(name), list)), None)
    if name == "history" and any(isinstance(message, Mapping) and "emotion-point" in message for message in row["history"]):
        raise UnreadableChat("looks like a recorded SAGE dialogue; bring it in with `rlver import sage` first")
    exchange = _exchange(row) if name in (None, "history") else None
    listed = _messages(row[name]) if name else []
    if exchange is None and name is None:
        raise UnreadableChat(
            f"expected turns, messages, conversations, or prompt and completion, got the keys {', '.join(sorted(map(str, row))) or 'none'}"
        )
    beside = _first(row, _BESIDE)  # of other names it may be a label or a rating
    if exchange is None and isinstance(beside, str) and listed and listed[-1][0] == "user":
        exchange = _spoken("assistant", beside)
    return [*listed, *(exchange or [])]


def _is_ours(turns: Any) -> bool:
    return isinstance(turns, list) and (not turns or any(isinstance(turn, Mapping) and "user" in turn for turn in turns))


def _exchange(row: Mapping[str, Any]) -> list[_Message] | None:
    """The messages of one prompt and its completion, each a text or a list of messages."""
    prompt, completion = _first(row, _PROMPTS), _first(row, _COMPLETIONS)
    if prompt is None or completion is None:
        return None
    if prompt is row.get("instruction") and isinstance(row.get("input"), str) and row["input"]:
        prompt = f"{prompt}\n{row['input']}"
    return [*_spoken("user", prompt), *_spoken("assistant", completion)]


def _first(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name)), None)


def _spoken(speaker: str, said: Any) -> list[_Message]:
    """A text, a message, or a list of messages."""
    if isinstance(said, list):
        return _messages(said)
    text = _content(said, 1) if isinstance(said, Mapping) else said
    if not isinstance(text, str):
        raise UnreadableChat(f"expected the {speaker}'s words as text or messages, got {type(said).__name__}")
    return [(speaker, text)]


def _messages(messages: Sequence[Any]) -> list[_Message]:
    """What user and assistant said; what was never seen is left out."""
    said: list[_Message] = []
    for number, message in enumerate(messages, start=1):
        if isinstance(message, list) and len(message) == 2 and all(text is None or isinstance(text, str) for text in message):
            said += [(speaker, text) for speaker, text in zip(("user", "assistant"), message, strict=True) if text is not None]
            continue
        if not isinstance(message, Mapping):
            raise UnreadableChat(f"message {number}: expected role and content, got {type(message).__name__}")
        speaker = _speaker(message, number)
        text = _content(message, number) if speaker else None
        if speaker and text is not None:
            said.append((speaker, text))
    return said


def _speaker(message: Mapping[str, Any], number: int) -> str | None:
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


def _content(message: Mapping[str, Any], number: int) -> str | None:
    """The text of a message: a string, or the text parts of a list. None for a message without content, such as a tool call."""
    content = next((message[name] for name in _TEXTS if message.get(name) is not None), None)
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, str | Mapping) for part in content):
        texts = [part if isinstance(part, str) else part.get("text") for part in content]
        return "".join(text for text in texts if isinstance(text, str))
    raise UnreadableChat(f"message {number}: expected text, got {type(content).__name__}")


def _turn(turn: Any, number: int) -> Turn:
    if not isinstance(turn, Mapping) or not isinstance(turn.get("user"), str) or not isinstance(turn.get("assistant"), str):
        raise UnreadableChat(f"turn {number}: expected the texts user and assistant")
    think, reply = separate_thought(turn["assistant"])
    cue = turn.get("cue")
    return Turn(
        user=turn["user"],
        assistant=reply,
        think=_text(turn, "think") or think,
        cue=cue if isinstance(cue, bool) else None,
        reply_tokens=_tokens(turn, "reply_tokens"),
        think_tokens=_tokens(turn, "think_tokens"),
    )


def _paired(messages: Sequence[_Message]) -> tuple[tuple[Turn, ...], int]:
    """Turns, and how many messages at the end had no reply. What one speaker says in a row is one message; a greeting by the assistant
    replies to silence."""
    turns: list[Turn] = []
    user: str | None = None
    for speaker, run in groupby(messages, key=itemgetter(0)):
        texts = [text for _, text in run]
        if speaker == "user":
            user = "\n".join(texts)
        else:
            thoughts, replies = zip(*map(separate_thought, texts), strict=True)
            think = "\n".join(filter(None, thoughts)) or None
            turns.append(Turn(user=user or "", assistant="\n".join(replies), think=think))
            user = None
    return tuple(turns), int(user is not None)


def _text(row: Mapping[str, Any], *names: str) -> str | None:
    for name in names:
        value = row.get(name)
        if value is not None and not isinstance(value, str):
            raise UnreadableChat(f"{name}: expected text, got {type(value).__name__}")
        if value:
            return value
    return None


def _number(row: Mapping[str, Any], name: str) -> int | None:
    value = row.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise UnreadableChat(f"{name}: expected a whole number, got {type(value).__name__}")
    return value


def _tokens(row: Mapping[str, Any], name: str) -> int | None:
    value = _number(row, name)
    if value is not None and not 0 <= value < MOST_TOKENS:
        raise UnreadableChat(f"{name}: expected a number of tokens, 0 or more and below {MOST_TOKENS}")
    return value
