"""A policy behind a real HTTP server: what it thinks stays with it, what goes wrong is a failure with a reason, answers replay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import TAG, FakeUser, job
from scripted_server import MODEL, Asked, Reply, Server, error, key, parameters, serving

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.protocols import turn_seed
from rlver.components.domain.transcript import StopReason
from rlver.components.endpoint.chat import EndpointRefused
from rlver.components.endpoint.opening import open_endpoint
from rlver.components.policy.chat_policy import ChatPolicy
from rlver.components.rollout.episode import Rollout, run_episode

RULES = EmotionRules(start=40, ceiling=100, floor=10, max_turns=3)
Says = Callable[[int], Reply]  # by turn from 0


def saying(text: str | None, reasoning: str | None = None, finish: str = "stop") -> Reply:
    message = {"role": "assistant", "content": text, "reasoning_content": reasoning}
    return Reply(body=json.dumps({"choices": [{"message": message, "finish_reason": finish}]}).encode())


def turn_of(asked: Asked) -> int:
    return sum(message["role"] == "assistant" for message in asked.body["messages"])


def hold(
    path: Path, says: Says, *, thinking: bool = False, strip: bool = False, replay: bool = False, user: FakeUser | None = None
) -> tuple[Rollout, FakeUser, Server]:
    user = user or FakeUser("U", [5] * 3)

    async def run() -> tuple[Rollout, Server]:
        async with (
            serving(lambda number, asked: says(turn_of(asked))) as server,
            open_endpoint(parameters(server.url), key, path / "policy.db", replay) as endpoint,
        ):
            policy = ChatPolicy(endpoint, MODEL, {"en": "Be kind."}, thinking, strip, temperature=0.3, top_p=0.9, max_reply_tokens=50)
            return await run_episode(job(0), user, TAG, policy, RULES), server

    rollout, server = asyncio.run(run())
    return rollout, user, server


def sent(server: Server, request: int) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in server.asked[request].body["messages"]]


def test_a_dialogue_is_asked_for_turn_by_turn_with_the_numbers_that_were_set(tmp_path: Path) -> None:
    rollout, user, server = hold(tmp_path, lambda turn: saying(f"reply {turn}"))
    assert sent(server, 2) == [
        ("system", "Be kind."), ("user", "U 0"), ("assistant", "reply 0"), ("user", "U 1"), ("assistant", "reply 1"), ("user", "U 2"),
    ]  # fmt: skip
    for turn, asked in enumerate(server.asked):
        numbers = {name: asked.body[name] for name in ("model", "temperature", "top_p", "max_tokens", "seed")}
        seed = turn_seed("d0", 1, turn) % 2**31
        assert numbers == {"model": MODEL, "temperature": 0.3, "top_p": 0.9, "max_tokens": 50, "seed": seed}
    assert user.heard == ["reply 0", "reply 1", "reply 2"]
    dialogue = rollout.dialogue
    assert (dialogue.policy, dialogue.stop_reason, dialogue.emotion_final) == (MODEL, StopReason.TURN_LIMIT, 55)
    assert all(turn.reply_tokens is None and turn.think_tokens is None for turn in dialogue.turns), "nobody counted them"
    assert rollout.prompt_ids == rollout.completion_ids == rollout.is_policy_T == (), "text is not tokens"
    assert rollout.well_formed and rollout.cut_off == 0


@pytest.mark.parametrize(
    ("text", "reasoning", "thinking", "think", "reply", "well_formed"),
    [
        ("hello", "they hurt", False, "they hurt", "hello", True),
        ("<think>they hurt</think>\n\nhello", None, False, "they hurt", "hello", True),
        ("they hurt</think>hello", None, False, "they hurt", "hello", True),  # the server's template had opened the thought
        ("<think>they hurt</think>hello<think>and more", None, False, "they hurt\nand more", "hello", True),
        ("<think>they hurt</think>hello", "deep down", True, "deep down\n\nthey hurt", "hello", True),
        ("hello", "they hurt", True, "they hurt", "hello", True),
        ("hello", None, True, None, "hello", False),  # a thought was asked for; the server may have kept it
        ("<think>they hurt</think>", None, True, "they hurt", "", False),  # says nothing
    ],
)
def test_a_thought_is_kept_but_never_reaches_the_user(
    tmp_path: Path, text: str, reasoning: str | None, thinking: bool, think: str | None, reply: str, well_formed: bool
) -> None:
    rollout, user, server = hold(tmp_path, lambda turn: saying(text, reasoning), thinking=thinking, strip=True)
    assert user.heard == [reply] * 3
    assert [(turn.think, turn.assistant) for turn in rollout.dialogue.turns] == [(think, reply)] * 3
    assert rollout.well_formed is well_formed
    assert ("assistant", reply or "…") in sent(server, 1)


@pytest.mark.parametrize(("thinking", "strip", "read"), [(True, False, "<think>t</think>hi"), (True, True, "hi"), (False, False, "hi")])
def test_the_model_reads_its_own_thoughts_again_only_where_they_are_asked_for_and_kept(
    tmp_path: Path, thinking: bool, strip: bool, read: str
) -> None:
    _, _, server = hold(tmp_path, lambda turn: saying("<think>t</think>hi"), thinking=thinking, strip=strip)
    assert sent(server, 1)[2] == ("assistant", read)


def test_a_reply_that_was_cut_off_is_heard_as_far_as_it_goes_and_counted(tmp_path: Path) -> None:
    rollout, user, _ = hold(
        tmp_path, lambda turn: (saying("I am so", finish="length"), saying(None, "endless", finish="length"), saying("hello"))[turn]
    )
    assert user.heard == ["I am so", "", "hello"]
    assert (rollout.cut_off, rollout.well_formed, rollout.dialogue.error) == (2, False, None)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (error(400, "Content Exists Risk"), "turn 2: {url}: the content was refused: Content Exists Risk"),
        (error(422, "messages.3.content: empty"), "turn 2: {url}: the request was refused (HTTP 422): messages.3.content: empty"),
        (saying("I", finish="content_filter"), "turn 2: 'model-a' or a filter in front of it refused to reply (content_filter)"),
        (error(503, "overloaded"), "turn 2: {url}: HTTP 503: overloaded, 4 times"),
    ],
    ids=["content", "request", "filter", "overloaded"],
)
def test_a_dialogue_that_gets_no_reply_is_unscorable_for_a_reason(tmp_path: Path, reply: Reply, reason: str) -> None:
    rollout, user, server = hold(tmp_path, lambda turn: reply if turn == 1 else saying("hello"))
    dialogue = rollout.dialogue
    assert (dialogue.stop_reason, dialogue.emotion_final, len(dialogue.turns)) == (StopReason.FAILED, None, 1)
    assert dialogue.error is not None and dialogue.error.startswith("PolicyUnavailable: " + reason.format(url=server.url))
    assert user.heard == ["hello"]


def test_a_dialogue_too_long_for_the_served_model_ends_with_the_emotion_so_far(tmp_path: Path) -> None:
    too_long = error(400, "This model's maximum context length is 4096 tokens")
    rollout, _, _ = hold(tmp_path, lambda turn: too_long if turn == 1 else saying("hello"), user=FakeUser("U", [-5] * 3))
    assert (rollout.dialogue.stop_reason, rollout.dialogue.emotion_final) == (StopReason.CONTEXT_FULL, 35)
    first, _, _ = hold(tmp_path / "first", lambda turn: too_long)
    assert first.dialogue.stop_reason is StopReason.FAILED
    assert (first.dialogue.error or "").startswith("ContextFull: turn 1: ") and "too long for 'model-a'" in (first.dialogue.error or "")


@pytest.mark.parametrize("text", ["", None])
def test_an_empty_reply_says_nothing_and_is_appraised_as_that(tmp_path: Path, text: str | None) -> None:
    rollout, user, server = hold(tmp_path, lambda turn: saying(text), user=FakeUser("U", [-5] * 3))
    assert user.heard == ["", "", ""] and len(server.asked) == 3, "asking again would choose among what the model says"
    assert (rollout.dialogue.emotion_final, rollout.dialogue.error, rollout.well_formed) == (25, None, False)
    assert [one["content"] for one in server.asked[-1].body["messages"] if one["role"] == "assistant"] == ["…", "…"], (
        "some refuse an empty one"
    )


def test_what_would_meet_every_dialogue_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(EndpointRefused, match="the key was not accepted"):
        hold(tmp_path, lambda turn: error(401, "no"))
    with pytest.raises(EndpointRefused, match="unknown model 'model-a'"):
        hold(tmp_path, lambda turn: error(404, "The model `model-a` does not exist"))


def test_a_dialogue_is_replayed_from_its_answers_and_asks_nobody(tmp_path: Path) -> None:
    held, _, _ = hold(tmp_path, lambda turn: saying(f"reply {turn}", "hm"))
    again, _, server = hold(tmp_path, lambda turn: error(500, "down"), replay=True)
    assert again == held and server.asked == []
    other, _, _ = hold(tmp_path, lambda turn: saying("x"), replay=True, user=FakeUser("V", [5] * 3))
    assert other.dialogue.error is not None and "holds no answer of 'model-a'" in other.dialogue.error


def test_a_server_that_takes_no_seed_is_asked_without(tmp_path: Path) -> None:
    def script(number: int, asked: Asked) -> Reply:
        refused: dict[str, Any] = {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}
        return Reply(422, json.dumps({"message": refused}).encode()) if "seed" in asked.body else saying("hello")

    async def run() -> tuple[Rollout, Server]:
        async with serving(script) as server, open_endpoint(parameters(server.url), key, tmp_path / "policy.db", False) as endpoint:
            policy = ChatPolicy(endpoint, MODEL, {"en": "Be kind."}, False, False, 0.3, 0.9, 50)
            return await run_episode(job(0), FakeUser("U", [5] * 3), TAG, policy, RULES), server

    rollout, server = asyncio.run(run())
    assert rollout.dialogue.error is None and len(server.asked) == 4
