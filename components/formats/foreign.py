"""Dialogues that others wrote down, in whatever of three shapes, as recordings that can be appraised.

Shapes: this project's transcripts, `{"turns": [{"user": …, "assistant": …}]}`, and chat messages
(`{"messages": [{"role": …, "content": …}]}`). Everything but the words is optional; what is missing stays unknown and is never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlver.components.domain.thinking import separate_thought
from rlver.components.domain.transcript import MOST_TOKENS, Turn

_SPEAKERS = {"user": "user", "human": "user", "assistant": "assistant", "model": "assistant", "bot": "assistant"}
_ASIDE = frozenset({"system", "developer"})


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


def recording_of(row: Mapping[str, Any], name: str) -> Recording:
    """The recording of one row; `name` identifies it if the row has no id of its own. Raises UnreadableChat."""
    if isinstance(row.get("turns"), list):
        turns, left_out = tuple(_turn(turn, number) for number, turn in enumerate(row["turns"], start=1)), 0
    elif isinstance(row.get("messages"), list):
        turns, left_out = _paired(_messages(row["messages"]))
    elif isinstance(row.get("history"), list):
        raise UnreadableChat("looks like a recorded SAGE dialogue; bring it in with `rlver import sage` first")
    else:
        raise UnreadableChat(f"expected turns or messages, got the keys {', '.join(sorted(row)) or 'none'}")
    error = _text(row, *(("error",) if "stop_reason" in row else ()), "failure")  # but for transcripts, `error` may be anything
    if not turns and error is None:
        raise UnreadableChat("there is no reply in it")
    identity = _text(row, "dialogue_id", "id") or name
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


def _messages(messages: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """(speaker, text) of every message; what one speaker says in a row is one message."""
    before: tuple[str, str] | None = None
    for number, message in enumerate(messages, start=1):
        role = message.get("role") if isinstance(message, Mapping) else None
        if not isinstance(role, str) or role not in _ASIDE | _SPEAKERS.keys():
            raise UnreadableChat(f"message {number}: the role must be user or assistant, got {role!r}")
        if role in _ASIDE:
            continue
        speaker, text = _SPEAKERS[role], _content(message, number)
        if before is not None and before[0] == speaker:
            before = speaker, f"{before[1]}\n{text}"
            continue
        if before is not None:
            yield before
        before = speaker, text
    if before is not None:
        yield before


def _content(message: Mapping[str, Any], number: int) -> str:
    """The text of a message: a string, or a list of text parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in content):
        return "".join(part["text"] for part in content)
    raise UnreadableChat(f"message {number}: expected text, got {type(content).__name__}")


def _paired(messages: Iterator[tuple[str, str]]) -> tuple[tuple[Turn, ...], int]:
    """Turns, and how many messages at the end had no reply. A greeting by the assistant replies to silence."""
    turns: list[Turn] = []
    user: str | None = None
    for speaker, text in messages:
        if speaker == "user":
            user = text
        else:
            think, reply = separate_thought(text)
            turns.append(Turn(user=user or "", assistant=reply, think=think))
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
