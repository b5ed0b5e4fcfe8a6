"""The line in front of a served model: text that is held back, requests that are sent away, a model that breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.tasks.runtime.chat_server import replies
from rlver.tasks.runtime.chat_server.completion_request import CompletionRequest, Refused
from rlver.tasks.runtime.chat_server.replies import BLOCK, ReplyQueue, StreamedText

END = 0
ASKED = CompletionRequest.model_validate({"model": "m", "messages": [{"role": "user", "content": "a"}], "max_tokens": 5, "seed": 3})


@dataclass
class Bytes:
    """Token n + 1 is byte n; a conversation has as many tokens as it has words."""

    system: str = "be kind"
    end_of_turn: int = END

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(token - 1 for token in ids if token != END).decode("utf-8", "replace")

    def of_messages(self, messages: Sequence[Any]) -> list[int]:
        return [1 + len(word) for message in messages for word in message["content"].split()]


@dataclass
class Scripted:
    """Says `words`, whatever it reads; `asked` has the contexts."""

    words: bytes
    logprob: float = -1.0
    capacity: int = 4 * BLOCK
    temperature: float = 0.0
    top_p: float = 0.0
    wait: asyncio.Event | None = None
    asked: list[SampleRequest] = field(default_factory=list)
    said: int = 0

    def start(self) -> None:
        pass

    def forget(self, dialogue_id: str) -> None:
        self.said = 0

    async def sample(self, request: SampleRequest) -> Sample:
        self.asked.append(request)
        if self.wait is not None:
            await self.wait.wait()
        await asyncio.sleep(0)
        self.said += 1
        ends = self.said > len(self.words)
        return Sample((END if ends else self.words[self.said - 1] + 1,), (self.logprob,), ends)


async def answers(
    sampler: Scripted,
    *asked: CompletionRequest,
    before: Callable[[ReplyQueue], None] = lambda line: None,
    say: Callable[[str], None] = lambda said: None,
) -> list[str | Refused]:
    made: Any = sampler
    chat: Any = Bytes()
    line = ReplyQueue(made, chat, adds_system=False, say=say)
    await line.begin()

    async def one(turn: Any) -> str | Refused:
        try:
            return "".join([piece.text async for piece in turn])
        except Refused as refused:
            return refused

    try:
        listening = [asyncio.create_task(one(line.ask(each))) for each in asked]
        await asyncio.sleep(0.01)
        before(line)
        return [await one for one in listening]
    finally:
        await line.end()


def pieces(words: bytes, *stop: str) -> list[str]:
    """What is given after each byte, the last of which ends the reply."""
    chat: Any = Bytes()
    text, ids = StreamedText(chat, stop), [byte + 1 for byte in words]
    given = []
    for count in range(1, len(ids) + 1):
        given.append(text.with_tokens(ids[:count], is_last=count == len(ids)))
        if text.is_stopped:
            break
    return given


def test_half_a_character_waits_for_its_other_half() -> None:
    assert pieces("aé!".encode()) == ["a", "", "é", "!"]
    assert pieces("é".encode()[:1]) == ["\ufffd"], "unless nothing follows"


def test_what_may_begin_a_stop_sequence_waits_and_the_sequence_is_never_given() -> None:
    assert pieces(b"abcd", "cx") == ["a", "b", "", "cd"]
    assert pieces(b"abcxyz", "cx", "yz") == ["a", "b", "", ""]
    assert pieces(b"aab", "aab") == ["", "", ""]
    assert "".join(pieces("Hi.用户: more".encode(), "用户:")) == "Hi.", "also where its characters are split over tokens"


def test_a_terminal_that_nobody_reads_any_more_ends_no_service() -> None:
    def closed(said: str) -> None:
        raise BrokenPipeError

    async def run() -> list[str | Refused]:
        return await answers(Scripted(b"a"), ASKED, ASKED, say=closed)

    assert asyncio.run(run()) == ["a", "a"]


def test_whoever_comes_when_too_many_wait_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "MOST_WAITING", 2)

    async def run() -> Refused:
        with pytest.raises(Refused) as refused:
            await answers(Scripted(b"a"), *[ASKED] * 3)
        return refused.value

    refused = asyncio.run(run())
    assert (refused.status, refused.code, refused.retry_after_s) == (503, "server_busy", 5)


def test_whoever_has_hung_up_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "MOST_WAITING", 2)

    async def run() -> list[str | Refused]:
        sampler = Scripted(b"a", wait=asyncio.Event())

        def clients_that_do_not_wait(line: ReplyQueue) -> None:
            for _ in range(3):
                line.ask(ASKED).leave()
            assert sampler.wait is not None
            sampler.wait.set()

        return await answers(sampler, ASKED, before=clients_that_do_not_wait)

    assert asyncio.run(run()) == ["a"]


def test_no_token_is_made_for_whoever_has_hung_up() -> None:
    async def run() -> tuple[str, int]:
        sampler = Scripted(b"hello", wait=asyncio.Event())
        made: Any = sampler
        chat: Any = Bytes()
        line = ReplyQueue(made, chat, adds_system=False, say=lambda said: None)
        await line.begin()
        under_way, waiting, last = (line.ask(ASKED) for _ in range(3))
        await asyncio.sleep(0.01)
        under_way.leave(), waiting.leave()
        assert sampler.wait is not None
        sampler.wait.set()
        text = "".join([piece.text async for piece in last])
        await line.end()
        return text, len(sampler.asked)

    assert asyncio.run(run()) == ("hello", 1 + 5), "of the one under way the token that was begun"


def test_a_model_that_breaks_says_nothing_and_the_next_request_is_answered() -> None:
    broken = asyncio.run(answers(Scripted(b"hello", logprob=float("nan")), ASKED))[0]
    assert isinstance(broken, Refused) and broken.status == 500
    crashed = Scripted(b"hello")

    async def fails(request: SampleRequest) -> Sample:
        crashed.sample = Scripted(b"hello").sample  # type: ignore[method-assign]
        raise RuntimeError("out of memory")

    crashed.sample = fails  # type: ignore[method-assign]
    first, second = asyncio.run(answers(crashed, ASKED, ASKED))
    assert isinstance(first, Refused) and first.code == "server_failed" and "memory" not in first.message
    assert second == "hello"


def test_when_the_server_stops_those_who_wait_are_sent_away_and_the_one_under_way_has_its_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[str | Refused]:
        sampler = Scripted(b"hello", wait=asyncio.Event())

        def stop(line: ReplyQueue) -> None:
            line.stop()
            with pytest.raises(Refused, match="stopping"):
                line.ask(ASKED)
            assert sampler.wait is not None
            sampler.wait.set()

        return await answers(sampler, ASKED, ASKED, before=stop)

    under_way, waiting = asyncio.run(run())
    assert under_way == "hello" and isinstance(waiting, Refused) and waiting.status == 503
    monkeypatch.setattr(replies, "GRACE_S", -1.0)
    assert all(isinstance(one, Refused) for one in asyncio.run(run()))


def test_a_prompt_is_read_in_blocks_and_only_whole_ones_are_used_again() -> None:
    """1200 tokens: 512, 1024, the rest; a second prompt that differs at token 1100 has two blocks in common, at token 600 one."""

    def prompt(change_at: int) -> CompletionRequest:
        words = ["a"] * 1200
        words[change_at] = "long"
        messages = [{"role": "user", "content": " ".join(words)}]
        return CompletionRequest.model_validate({"model": "m", "messages": messages, "max_tokens": 1, "seed": 3})

    sampler = Scripted(b"x" * 100)
    asyncio.run(answers(sampler, prompt(1199), prompt(1100), prompt(600), prompt(3)))
    assert [len(request.context_ids) for request in sampler.asked] == [512, 1024, 1200, 1025, 1200, 513, 1024, 1200, 512, 1024, 1200]
    others = [request.context_ids[-1] for request in sampler.asked if len(request.context_ids) in (513, 1025)]
    assert all(other not in (2, 5) for other in others), "a token that stands in neither prompt"
    assert len({request.dialogue_id for request in sampler.asked}) == 1
