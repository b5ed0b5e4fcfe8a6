"""A user lent to a foreign trainer: the project's own dialogue, to the byte."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

import fakes
import pytest

from rlver.components.adapters import lent
from rlver.components.domain.emotion import EmotionRules, emotion_reward
from rlver.components.domain.protocols import Reply, Tokens
from rlver.components.domain.thinking import said_in
from rlver.components.domain.transcript import StopReason
from rlver.components.rollout.episode import Job, Rollout, run_episode
from rlver.components.users.scripted.simulator import ScriptedSimulator

RULES = EmotionRules()
REPLIES = (
    "That sounds heavy. What hurts most about it?",
    "<think>they want to be seen</think>You tried so hard, and nobody noticed.",
    "",
    "Just calm down.",
    "What would help you tonight?",
)


@dataclass
class Reader:
    """A policy that reads its replies off a list."""

    name: str = lent.NAME
    tokens: Tokens = field(default_factory=Tokens)
    turn: int = 0

    def start(self) -> None: ...

    async def close(self) -> None: ...

    def session(self, dialogue_id: str, seed: int, language: str) -> ReaderSession:
        return ReaderSession()


@dataclass
class ReaderSession:
    tokens: Tokens = field(default_factory=Tokens)
    turn: int = 0

    async def reply(self, user: str) -> Reply:
        self.turn += 1
        return Reply(said_in(REPLIES[(self.turn - 1) % len(REPLIES)], thinking=False), False, None, None)

    def close(self) -> None: ...


async def lent_out(job: Job) -> tuple[list[lent.Turned], Rollout]:
    dialogue = lent.LentDialogue(job, ScriptedSimulator("vanilla"), RULES, thinking=False)
    turned = [await dialogue.open()]
    while turned[-1].ended is None:
        turned.append(await dialogue.say(REPLIES[(len(turned) - 1) % len(REPLIES)]))
    return turned, turned[-1].ended


def a_dialogue(user: fakes.FakeUser) -> lent.LentDialogue:
    return lent.LentDialogue(fakes.job(0), fakes.FakeSimulator(lambda persona, seed: user), fakes.RULES, thinking=False)


@pytest.mark.parametrize("number", range(6))
def test_a_lent_dialogue_is_our_own_to_the_byte(number: int) -> None:
    job, simulator = fakes.job(number, seed=3 + number), ScriptedSimulator("vanilla")
    own = asyncio.run(run_episode(job, simulator.session(job.persona, job.seed), simulator.tag, Reader(), RULES))
    turned, rollout = asyncio.run(lent_out(job))
    assert json.dumps(rollout.dialogue.model_dump(mode="json")) == json.dumps(own.dialogue.model_dump(mode="json"))
    assert rollout.malformed_turn == own.malformed_turn == 2, "the empty reply"
    assert [one.words for one in turned[:-1]] == [turn.user for turn in own.dialogue.turns]
    assert [one.emotion for one in turned[1:]] == [turn.emotion for turn in own.dialogue.turns]
    assert RULES.start + sum(one.change for one in turned) == own.dialogue.emotion_final


def test_many_lent_dialogues_at_once_do_not_mix() -> None:
    async def all_at_once() -> list[Rollout]:
        return [rollout for _, rollout in await asyncio.gather(*(lent_out(fakes.job(number)) for number in range(64)))]

    alone = [asyncio.run(lent_out(fakes.job(number)))[1] for number in range(16)]
    together = asyncio.run(all_at_once())
    assert [one.dialogue.turns for one in together] == [alone[number % 16].dialogue.turns for number in range(64)]


def test_a_goodbye_is_heard_and_ends_the_dialogue() -> None:
    async def talk() -> lent.Turned:
        dialogue = a_dialogue(fakes.FakeUser("Ann", [3], leaves_after=1))
        await dialogue.open()
        return await dialogue.say("hello")

    last = asyncio.run(talk())
    assert last.ended is not None and last.ended.dialogue.stop_reason is StopReason.GOODBYE
    assert (last.words, last.emotion, last.change) == ("Ann 1", 43, 3)


def test_a_user_who_cannot_be_reached_gives_no_reward() -> None:
    async def talk() -> lent.Turned:
        dialogue = a_dialogue(fakes.FakeUser("Ann", [3, 3], breaks="appraise 2"))
        await dialogue.open()
        await dialogue.say("one")
        return await dialogue.say("two")

    last = asyncio.run(talk())
    assert last.ended is not None and emotion_reward(last.ended.dialogue, last.ended.well_formed, format_gate=False) is None
    assert (last.emotion, last.change) == (43, 0)


def test_what_cannot_be_taken_is_refused_and_the_dialogue_goes_on() -> None:
    async def talk() -> None:
        dialogue = a_dialogue(fakes.FakeUser("Ann", [1, 1, 1, 1]))
        with pytest.raises(lent.NoReply, match="reset before the first step"):
            await dialogue.say("too early")
        await dialogue.open()
        with pytest.raises(lent.NoReply, match=r"10,000,000 bytes; at most 65,536"):
            await dialogue.say("x" * 10_000_000)
        with pytest.raises(lent.NoReply, match="surrogate"):
            await dialogue.say("half \ud83d")
        both = await asyncio.gather(dialogue.say("mine"), dialogue.say("yours"), return_exceptions=True)
        assert isinstance(both[0], lent.Turned) and isinstance(both[1], lent.NoReply) and both[0].words == "Ann 1"
        for _ in range(3):
            last = await dialogue.say("and so on")
        assert last.ended is not None and last.ended.dialogue.stop_reason is StopReason.TURN_LIMIT
        with pytest.raises(lent.NoReply, match="over"):
            await dialogue.say("too late")

    asyncio.run(talk())


def test_a_closed_dialogue_leaves_no_task_behind() -> None:
    async def talk() -> int:
        dialogue = a_dialogue(fakes.FakeUser("Ann", [1]))
        await dialogue.open()
        dialogue.close()
        await asyncio.sleep(0.01)
        with pytest.raises(lent.NoReply):
            await dialogue.say("gone")
        return len(asyncio.all_tasks())

    assert asyncio.run(talk()) == 1


def test_a_message_whose_sender_gave_up_ends_the_dialogue_so_that_no_other_is_paid_for_it() -> None:
    async def talk() -> int:
        dialogue = a_dialogue(fakes.FakeUser("Ann", [3, -9, 3]))
        await dialogue.open()
        given_up = asyncio.create_task(dialogue.say("the first"))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        for _ in range(3):
            with pytest.raises(lent.NoReply):
                await dialogue.say("the second")
            await asyncio.sleep(0.01)
        with pytest.raises(lent.NoReply, match="over: reset"):
            await dialogue.say("the third")
        return len(asyncio.all_tasks())

    assert asyncio.run(talk()) == 1
