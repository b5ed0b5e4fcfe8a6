"""Dialogues of other people's making: what the source says is kept, what is missing stays unknown, nonsense is refused with its place."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import a_dialogue

from rlver.components.domain.thinking import separate_thought
from rlver.components.formats.foreign import UnreadableChat, recording_of


def test_turns_alone_are_enough() -> None:
    recording = recording_of({"turns": [{"user": "hi", "assistant": "hello"}]}, "file/1")
    assert (recording.dialogue_id, recording.persona_id, recording.policy, recording.seed) == ("file/1", "file/1", "unknown", 0)
    assert recording.hidden_need is recording.emotion_start is recording.error is None
    turn = recording.turns[0]
    assert (turn.user, turn.assistant, turn.emotion, turn.appraisal, turn.cue) == ("hi", "hello", None, None, None)


def test_what_the_source_says_is_kept() -> None:
    row = {
        "id": "x", "persona_id": "p", "hidden_need": "a hug", "model": "m", "seed": 3, "emotion_start": 20,
        "turns": [{"user": "hi", "assistant": "hello", "think": "hm", "cue": True, "reply_tokens": 1, "think_tokens": 2}],
    }  # fmt: skip
    recording = recording_of(row, "file/1")
    assert (recording.dialogue_id, recording.persona_id, recording.hidden_need) == ("x", "p", "a hug")
    assert (recording.policy, recording.seed, recording.emotion_start) == ("m", 3, 20)
    assert recording.turns[0].model_dump(exclude={"emotion", "appraisal", "user", "assistant"}) == {
        "think": "hm", "cue": True, "reply_tokens": 1, "think_tokens": 2,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["error", "failure"])
def test_a_failed_transcript_says_why_in_the_new_form_and_the_old(name: str) -> None:
    assert recording_of({"turns": [], "stop_reason": "failed", name: "cut"}, "file/1").error == "cut"
    words = [{"user": "hi", "assistant": "hello"}]
    assert recording_of({"turns": words, "error": {"code": 0}}, "file/1").error is None, "of other people's rows nobody knows what it means"


def test_our_own_transcripts_lose_their_judgement_and_nothing_else() -> None:
    dialogue = a_dialogue("d", [3, -2])
    recording = recording_of(dialogue.model_dump(mode="json"), "file/1")
    assert (recording.dialogue_id, recording.policy, recording.seed, recording.hidden_need) == ("d", "p", 1, "deep_empathy")
    assert [(turn.user, turn.assistant, turn.cue) for turn in recording.turns] == [("u0", "r0", False), ("u1", "r1", False)]
    assert all(turn.emotion is None and turn.appraisal is None for turn in recording.turns)


def messages(*pairs: tuple[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in pairs]}


def test_chat_messages_become_turns() -> None:
    row = messages(("system", "be kind"), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"))
    recording = recording_of(row, "n")
    assert [(turn.user, turn.assistant) for turn in recording.turns] == [("a", "b"), ("c", "d")]
    assert recording.left_out == 0


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "a", "completion": {"role": "assistant", "content": "b"}},
        {"prompt": {"content": "a"}, "response": [{"role": "assistant", "content": "b"}]},
        {"messages": [{"role": "user", "content": "a"}], "completion": "b"},
    ],
)
def test_a_completion_may_be_a_message_and_stand_beside_the_messages(row: dict[str, Any]) -> None:
    recording = recording_of(row, "n")
    assert [(turn.user, turn.assistant) for turn in recording.turns] == [("a", "b")] and recording.left_out == 0


def test_a_reply_among_the_messages_is_no_second_one_beside_them() -> None:
    row = messages(("user", "a"), ("assistant", "b")) | {"answer": "b"}
    assert [turn.assistant for turn in recording_of(row, "n").turns] == ["b"]


@pytest.mark.parametrize("beside", [{"answer": 4}, {"output": {"rating": 4}}, {"response": {"choices": []}}, {"output": "positive"}])
def test_what_may_be_a_label_is_no_reply_beside_the_messages(beside: dict[str, Any]) -> None:
    recording = recording_of(messages(("user", "a"), ("assistant", "b"), ("user", "c")) | beside, "n")
    assert [turn.assistant for turn in recording.turns] == ["b"] and recording.left_out == 1


def test_what_was_said_before_a_thought_stays_said() -> None:
    """Two messages in a row, each with a thought of its own or with none: as a model writes that calls a tool in between."""
    first, second = "I am so sorry. That is a terrible loss.", "<think>ask</think>Do you want to tell me more?"
    messages = [
        {"role": "user", "content": "My dog died."},
        {"role": "assistant", "content": first},
        {"role": "assistant", "content": second},
    ]
    (turn,) = recording_of({"messages": messages}, "x").turns
    assert (turn.think, turn.assistant) == ("ask", f"{first}\nDo you want to tell me more?")
    messages[1]["content"] = f"<think>comfort</think>{first}"
    (turn,) = recording_of({"messages": messages}, "x").turns
    assert (turn.think, turn.assistant) == ("comfort\nask", f"{first}\nDo you want to tell me more?")


def test_a_last_message_without_reply_is_counted_and_left_out() -> None:
    recording = recording_of(messages(("user", "a"), ("assistant", "b"), ("user", "bye")), "n")
    assert len(recording.turns) == 1 and recording.left_out == 1


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("hi", (None, "hi")),
        ("<think>why</think>hi", ("why", "hi")),
        ("why</think> hi", ("why", "hi")),  # the template had opened the thought
        ("<think></think>hi", (None, "hi")),
        ("<think>why, and cut off", ("why, and cut off", "")),
    ],
)
def test_a_thought_in_front_of_a_reply_is_split_off(text: str, parts: tuple[str | None, str]) -> None:
    assert separate_thought(text) == parts
    turn = recording_of({"turns": [{"user": "u", "assistant": text}]}, "n").turns[0]
    assert (turn.think, turn.assistant) == parts


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "hello"}, "expected turns, messages, conversations, or prompt and completion, got the keys text"),
        ({"turns": []}, "there is no reply in it"),
        ({"turns": [{"user": "a"}]}, "turn 1: expected the texts user and assistant"),
        ({"turns": [{"user": "a", "assistant": "b"}, 3]}, "turn 2"),
        ({"turns": [{"user": "a", "assistant": "b"}], "seed": "7"}, "seed: expected a whole number, got str"),
        ({"turns": [{"user": "a", "assistant": "b"}], "hidden_need": 4}, "hidden_need: expected text, got int"),
        (messages(("user", "a")), "there is no reply in it"),
        ({"question": "a", "answer": {"start": 4}}, "the assistant's words as text or messages, got dict"),
        ({"prompt": "a", "completion": 4}, "the assistant's words as text or messages, got int"),
    ],
)
def test_what_is_no_dialogue_is_refused_with_the_reason(row: dict[str, Any], message: str) -> None:
    with pytest.raises(UnreadableChat, match=message):
        recording_of(row, "n")
