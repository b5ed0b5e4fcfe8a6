"""One simulated user, lent to a foreign trainer: the project's own dialogue loop, whose policy is whoever sends the next message.

The loop runs as a task beside the trainer's; the policy in it waits for `say`. So nothing of the loop is written twice, and a dialogue that is
lent has the words, emotions and reward of our own to the byte. This file knows no trainer's library.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.printable import whole_characters
from rlver.components.domain.protocols import Policy, PolicySession, Reply, Simulator, Tokens, UserSession, Utterance
from rlver.components.domain.thinking import said_in
from rlver.components.domain.transcript import Appraisal
from rlver.components.rollout.episode import Job, Rollout, run_episode

MOST_BYTES = 64 * 1024  # of one message, as UTF-8
NAME = "lent"  # the policy's, in transcripts


class NotScored(RuntimeError):
    """User or policy could not be reached, or something else ended the dialogue early: an error to the trainer, not a reward of 0."""


class NoReply(ValueError):
    """The message cannot be taken; the dialogue is as it was before."""


@dataclass(frozen=True)
class Turned:
    """What came of a message, or of the start. `words` are the user's next; at the end a goodbye, else nothing.

    `change` is of the emotion as it was counted, in points. `ended` is None while the dialogue goes on.
    """

    words: str
    emotion: int
    change: int
    ended: Rollout | None


class LentDialogue:
    """One dialogue: `open`, then `say` until `ended`. Both belong to one event loop, and one at a time is under way."""

    def __init__(self, job: Job, simulator: Simulator, rules: EmotionRules, thinking: bool) -> None:
        """`thinking`: a message needs a thought in tags to be well-formed. Raises ValueError for a persona that the user cannot play."""
        self.job = job
        self.turns = 0  # messages that were appraised
        self.emotion = rules.start
        self.over = False
        self._rules, self._tag = rules, simulator.tag
        self._user = _Overheard(simulator.session(job.persona, job.seed))
        self._caller = _Caller(thinking)
        self._loop: asyncio.Task[Rollout] | None = None
        self._busy = False

    async def open(self) -> Turned:
        """The user's first words."""
        policy: Policy = self._caller
        self._loop = asyncio.create_task(run_episode(self.job, self._user, self._tag, policy, self._rules))
        return await self._next()

    async def say(self, message: str) -> Turned:
        """What the user makes of a message. Raises NoReply for one that is too long, is no text, or comes out of turn.

        Cancelled, it ends the dialogue: nobody heard what this message has earned, and the next must not be paid for it.
        """
        if self._loop is None or self._loop.done():
            raise NoReply("this dialogue is over: reset before the next step" if self._loop else "reset before the first step")
        if self._busy:
            raise NoReply("another message of this dialogue is under way: one client to a session, one step at a time")
        if whole_characters(message) != message:
            raise NoReply("the message is not valid Unicode: it has half of a surrogate pair")
        if (size := len(message.encode())) > MOST_BYTES:
            raise NoReply(f"the message has {size:,} bytes; at most {MOST_BYTES:,} are read")
        self._caller.said.put_nowait(message)
        return await self._next()

    def close(self) -> None:
        """Whoever spoke is gone, and the dialogue with them. From any thread."""
        if self._loop is not None and not self._loop.get_loop().is_closed():
            self._loop.get_loop().call_soon_threadsafe(self._loop.cancel)

    async def _next(self) -> Turned:
        """Wait for the user's next words, or for the end of the dialogue."""
        assert self._loop is not None
        self._busy = True
        asked = asyncio.create_task(self._caller.asked.get())
        try:
            await asyncio.wait({asked, self._loop}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._loop.cancel()  # and busy until it has ended
            raise
        finally:
            asked.cancel()
        self._busy = False
        if self._loop.cancelled():
            raise NoReply("this dialogue was closed; reset before the next step")
        ended = self._loop.result() if self._loop.done() else None
        return self._turned(ended)

    def _turned(self, ended: Rollout | None) -> Turned:
        before, heard, self.over = self.emotion, self._user, ended is not None
        if ended is not None and ended.dialogue.turns:
            self.turns, self.emotion = len(ended.dialogue.turns), ended.dialogue.turns[-1].emotion or 0
        elif ended is None and heard.emotion is not None:
            self.turns, self.emotion = self.turns + 1, heard.emotion
        words = heard.words if ended is None or heard.says_goodbye else ""
        return Turned(words, self.emotion, self.emotion - before, ended)


@dataclass
class _Caller:
    """The policy of one dialogue: it says what it is given."""

    thinking: bool
    name: str = NAME
    tokens: Tokens = field(default_factory=Tokens)
    asked: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    said: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    def start(self) -> None:
        """It has no weights."""

    async def close(self) -> None:
        """It holds nothing."""

    def session(self, dialogue_id: str, seed: int, language: str) -> PolicySession:
        return _NextReply(self)


@dataclass(frozen=True)
class _NextReply:
    """A policy that hands on what the user says, and waits for what is said to it."""

    caller: _Caller
    tokens: Tokens = field(default_factory=Tokens)

    async def reply(self, user: str) -> Reply:
        self.caller.asked.put_nowait(user)
        message = await self.caller.said.get()
        return Reply(said_in(message, self.caller.thinking), cut_off=False, reply_tokens=None, think_tokens=None)

    def close(self) -> None:
        """It holds nothing."""


@dataclass
class _Overheard:
    """A user session as it is, and what was said last; `emotion` is None before the first `speak`."""

    user: UserSession
    words: str = ""
    says_goodbye: bool = False
    emotion: int | None = None

    async def open(self) -> Utterance:
        return self._said(await self.user.open())

    async def appraise(self, reply: str) -> Appraisal:
        self.says_goodbye = False
        return await self.user.appraise(reply)

    async def speak(self, emotion: int) -> Utterance:
        self.emotion = emotion
        return self._said(await self.user.speak(emotion))

    def _said(self, utterance: Utterance) -> Utterance:
        self.words, self.says_goodbye = utterance.text, utterance.wants_to_end
        return utterance
