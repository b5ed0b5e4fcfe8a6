"""The time of replies: by a clock of our own, so that every figure can be checked by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlver.components.domain.protocols import Reply, Tokens
from rlver.components.domain.thinking import Said
from rlver.flows.cli import main
from rlver.tasks.studies.latency.latency import NO_TOKENS, Timed, TimedPolicy, latency_of


class Slow:
    """A policy that takes a second a token by the test's own clock."""

    name = "slow"

    def __init__(self, think_tokens: int, reply_tokens: int) -> None:
        self.now = 100.0
        self.counts = (think_tokens, reply_tokens)
        self.heard: list[str] = []

    def start(self) -> None: ...

    async def close(self) -> None: ...

    def session(self, dialogue_id: str, seed: int, language: str) -> Slow:
        return self

    @property
    def tokens(self) -> Tokens:
        return Tokens()

    async def reply(self, user: str) -> Reply:
        self.heard.append(user)
        self.now += sum(self.counts)
        think, reply = self.counts
        return Reply(Said("Well.", "I see.", True), False, reply_tokens=reply, think_tokens=think)


def test_a_reply_takes_what_the_clock_says_and_its_thought_its_share_of_the_tokens() -> None:
    slow = Slow(think_tokens=30, reply_tokens=10)
    timed = TimedPolicy(slow, lambda: slow.now)
    said = asyncio.run(timed.session("a/1", 7, "en").reply("Hello"))
    (reply,) = timed.replies
    assert (reply.dialogue_id, reply.seconds, reply.tokens, reply.thought_seconds) == ("a/1", 40.0, 40, 30.0)
    assert timed.name == "slow" and slow.heard == ["Hello"] and said.said.reply == "I see."


def rows() -> Iterator[Timed]:
    yield Timed("a/1", 4.0, 30, 10)
    yield Timed("a/1", 2.0, None, 10)  # not thought about
    yield Timed("b/1", 3.0, 10, 20)


def test_means_are_over_replies_and_intervals_over_personas() -> None:
    found = latency_of(list(rows()), {"a/1": "a", "b/1": "b"}, 200, 7)
    assert found["replies"] == 3
    assert found["seconds"]["value"] == pytest.approx(3.0) and found["seconds"]["n"] == 2
    assert found["thought_seconds"]["value"] == pytest.approx((3.0 + 0.0 + 1.0) / 3)
    assert found["tokens"]["value"] == pytest.approx((40 + 10 + 30) / 3)
    assert found["thought_tokens"]["value"] == pytest.approx(40 / 3)
    assert found["seconds_per_token"]["value"] == pytest.approx((0.1 + 0.2 + 0.1) / 3, abs=1e-6)


def test_without_counts_the_thought_s_time_is_unknown_and_not_zero() -> None:
    found = latency_of([Timed("a", 1.0, None, None), Timed("b", 3.0, None, None)], {"a": "a", "b": "b"}, 200, 7)
    assert found["seconds"]["value"] == 2.0
    assert found["thought_seconds"] == {"value": None, "ci95": None, "n": 0, "reason": NO_TOKENS}


def test_one_persona_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two personas"):
        latency_of([Timed("a", 1.0, 1, 1)], {"a": "a"}, 200, 7)


def test_an_interruption_does_not_promise_that_dialogues_are_kept(
    project: Path, micro_policy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def press_ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlver.tasks.runtime.assembly.Conversation.hold", press_ctrl_c)
    assert main(["latency", "--policy", str(micro_policy), "--limit", "2"]) == 130
    assert capsys.readouterr().err.endswith("interrupted: no dialogue of this command is kept, so it begins anew\n")
