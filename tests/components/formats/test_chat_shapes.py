"""Chats of other projects: every usual shape gives the same dialogue, and what is no chat is refused in words."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rlver.components.domain.files import BadFile
from rlver.components.formats.foreign import UnreadableChat, read_chats, recording_of

ASKED, REPLIED = "My boss shouted at me today.", "That sounds hard. Tell me more."
MESSAGES = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": REPLIED}]
SIGNED = {"messages": MESSAGES, "author": "bob"}  # a name beside the messages makes no message of the chat
SIGNED_PAIR = {"prompt": ASKED, "completion": REPLIED, "role": "nurse"}
SHAREGPT = [{"from": "human", "value": ASKED}, {"from": "gpt", "value": REPLIED}]


def exchanges(row: Any) -> list[tuple[str, str]]:
    return [(turn.user, turn.assistant) for turn in recording_of(row, "chat/1").turns]


@pytest.mark.parametrize(
    "row",
    [
        {"messages": MESSAGES},
        MESSAGES,
        {"conversations": SHAREGPT},
        {"conversations": [{"from": "system", "value": "be kind"}, *SHAREGPT]},
        {"conversation": MESSAGES, "conversation_hash": "a1", "language": "English"},
        {"dialog": [{"speaker": "seeker", "text": ASKED}, {"speaker": "supporter", "text": REPLIED}], "situation": "at work"},
        {"turns": MESSAGES},
        {"turns": [[ASKED, REPLIED]]},
        {"turns": [{"user": ASKED, "assistant": REPLIED}]},
        {"history": [], "query": ASKED, "response": REPLIED},
        {"prompt": ASKED, "completion": REPLIED},
        {"prompt": MESSAGES[:1], "completion": MESSAGES[1:]},
        {"prompt": ASKED, "response": REPLIED, "messages": MESSAGES},
        {"instruction": "My boss", "input": "shouted at me today.", "output": REPLIED},
        {"messages": [{"role": "User ", "content": [{"type": "text", "text": part} for part in (ASKED[:7], ASKED[7:])]}, MESSAGES[1]]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": ASKED}, {"type": "image_url"}]}, MESSAGES[1]]},
        {"messages": [MESSAGES[0], {"role": "assistant", "content": None, "tool_calls": []}, {"role": "tool", "content": "7"}, MESSAGES[1]]},
    ],
)  # fmt: skip
def test_every_usual_shape_gives_the_same_dialogue(row: Any) -> None:
    ((user, reply),) = exchanges(row)
    assert (user.replace("\n", " "), reply) == (ASKED, REPLIED)


def test_earlier_pairs_come_before_the_question() -> None:
    assert exchanges({"history": [["Hi.", "Hello."]], "query": ASKED, "response": REPLIED}) == [("Hi.", "Hello."), (ASKED, REPLIED)]


def test_a_greeting_replies_to_silence_and_messages_in_a_row_are_one() -> None:
    row = {"messages": [MESSAGES[1], MESSAGES[0], MESSAGES[0], MESSAGES[1], {"role": "assistant", "content": ""}]}
    assert exchanges(row) == [("", REPLIED), (f"{ASKED}\n{ASKED}", f"{REPLIED}\n")]


@pytest.mark.parametrize(
    ("row", "identity"),
    [({"id": 7}, "7"), ({"conversation_id": "c"}, "c"), ({"dialogue_id": "d", "id": 7}, "d"), ({"id": ""}, "chat/1"), ({}, "chat/1")],
)
def test_an_id_is_any_number_or_text_under_a_usual_name(row: dict[str, Any], identity: str) -> None:
    assert recording_of({**row, "messages": MESSAGES}, "chat/1").dialogue_id == identity
    assert recording_of({**row, "turns": [{"user": ASKED, "assistant": REPLIED}]}, "chat/1").dialogue_id == identity


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("hello", "expected a dialogue, got str"),
        ({}, "got the keys none"),
        ({"prompt": ASKED, "chosen": REPLIED, "rejected": "No."}, "got the keys chosen, prompt, rejected"),
        ({"messages": [ASKED, REPLIED]}, "message 1: expected role and content, got str"),
        ({"messages": [{"content": ASKED}]}, "message 1: the role must be user or assistant, got None"),
        ({"messages": [{"role": "user", "content": 3}]}, "message 1: expected text, got int"),
        ({"turns": [{"user": ASKED}]}, "turn 1: expected the texts user and assistant"),
        ({"messages": MESSAGES[:1]}, "there is no reply in it"),
        ({"history": [{"role": "user", "content": ASKED, "emotion-point": 40}]}, "rlver import sage"),
    ],
)
def test_what_is_no_chat_is_refused_in_words(row: Any, message: str) -> None:
    with pytest.raises(UnreadableChat, match=message):
        recording_of(row, "chat/1")


def _chat(line: Any) -> str:
    return json.dumps(line, ensure_ascii=False)


@pytest.mark.parametrize(
    ("content", "chats"),
    [
        (f"{_chat({'messages': MESSAGES})}\r\n\r\n{_chat(MESSAGES)}\n".encode("utf-8-sig"), [(1, {"messages": MESSAGES}), (3, MESSAGES)]),
        (gzip.compress(_chat({"messages": MESSAGES}).encode()), [(1, {"messages": MESSAGES})]),
        (json.dumps({"messages": MESSAGES}, indent=1).encode(), [(1, {"messages": MESSAGES})]),
        (json.dumps([{"a": 1}, {"b": 2}], indent=1).encode(), [(1, {"a": 1}), (2, {"b": 2})]),
        (json.dumps([{"a": 1}, {"b": 2}]).encode(), [(1, {"a": 1}), (2, {"b": 2})]),
        (json.dumps(SHAREGPT, indent=1).encode(), [(1, SHAREGPT)]),
        (json.dumps([{"messages": MESSAGES}, SIGNED]).encode(), [(1, {"messages": MESSAGES}), (2, SIGNED)]),
        (json.dumps([SIGNED_PAIR] * 2).encode(), [(1, SIGNED_PAIR), (2, SIGNED_PAIR)]),
        (b'{"a": "half \\ud800 of \\udc00 it, caf\xc3\xa9"}', [(1, {"a": "half \ufffd of \ufffd it, caf\u00e9"})]),
    ],
)
def test_lines_documents_and_packed_files_are_read(content: bytes, chats: list[tuple[int, Any]], tmp_path: Path) -> None:
    (tmp_path / "chats").write_bytes(content)
    assert read_chats(tmp_path / "chats") == chats


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "chats:0: has no rows"),
        (b'{"a": 1}\nuser: hi\n', "chats:2: not valid JSON"),
        (b"user,assistant\nhi,hello\n", "chats:1: not valid JSON"),
        (b'{"a": 1}\n{"a": "caf\xe9"}', "chats:2: is not UTF-8"),
        (b"\x1f\x8bbroken", "cannot be unpacked"),
        (b"[" * 100_000, "chats:1: not valid JSON"),
    ],
)
def test_a_file_of_something_else_is_named_with_its_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "chats").write_bytes(content)
    with pytest.raises(BadFile, match=message):
        read_chats(tmp_path / "chats")


def test_a_missing_file_and_a_folder_are_no_chats(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no such file"):
        read_chats(tmp_path / "none")
    with pytest.raises(BadFile, match="cannot be read"):
        read_chats(tmp_path)
