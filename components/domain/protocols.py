"""Who takes part in a dialogue: a policy that replies, and a user, who is an appraiser and a speaker put together.

An `Appraiser` says how one user feels about a reply, a `Speaker` what that user says next; each belongs to one dialogue, for life. Simulators,
policies and kinds of appraisers make them. An appraiser is given the whole dialogue up to the reply, so it can be asked about recorded ones too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.domain.thinking import Said
from rlver.components.domain.transcript import Appraisal, SimulatorTag, Turn

T = TypeVar("T")


class SimulatorUnavailable(RuntimeError):
    """The user could not be simulated (after bounded retries); the dialogue is unscorable, not worth zero."""


class UnfamiliarUser(ValueError):
    """The appraiser knows nothing about users who talk like this; the message says how it can tell."""


@dataclass(frozen=True)
class Utterance:
    """What the user says. `wants_to_end` is an explicit flag; nobody searches the text for goodbye words."""

    text: str
    cue: bool | None  # the message hints at the hidden need; None when nobody knows
    wants_to_end: bool = False


@dataclass(frozen=True)
class Exchange:
    """What the user said, and what the assistant replied."""

    user: str
    reply: str


def exchanges_of(turns: Sequence[Turn]) -> list[Exchange]:
    return [Exchange(turn.user, turn.assistant) for turn in turns]


@dataclass(frozen=True)
class About:
    """What is known of the user of a dialogue: the persona, else the recorded need, and the imported record it came from."""

    persona: Persona | None
    hidden_need: str | None = None
    original: Mapping[str, Any] | None = None


class Appraiser(Protocol):
    async def appraise(self, exchanges: Sequence[Exchange], emotion: int) -> Appraisal:
        """How the user takes the reply of the last exchange, and why; `emotion` is the one before it.

        Raises SimulatorUnavailable and UnfamiliarUser.
        """
        ...


class Speaker(Protocol):
    """Calls alternate: open, (hear, speak), (hear, speak), …"""

    async def open(self) -> Utterance:
        """The first message."""
        ...

    async def hear(self, reply: str, appraisal: Appraisal) -> None:
        """Take the reply to the last message, and what was made of it by whatever appraiser."""
        ...

    async def speak(self, emotion: int) -> Utterance:
        """The next message, given the emotion after the last appraisal. Raises SimulatorUnavailable."""
        ...


class AppraiserKind(Protocol):
    """Makes appraisers. Construction does no work and calls nobody."""

    @property
    def name(self) -> str:
        """Stands in tables."""
        ...

    @property
    def tag(self) -> SimulatorTag: ...

    def appraiser(self, about: About, seed: int) -> Appraiser: ...

    def refusal(self, turns: Sequence[Turn]) -> str | None:
        """Why it cannot read these words at all; None where it can try."""
        ...


class Rounding(NamedTuple):
    """How far a recorded appraisal is from the one that is derived here: the largest difference of a probability, of the sum of points, of the change."""

    probability: float
    points: float
    change: int


@runtime_checkable
class Rounds(Protocol):
    """A kind of appraisers whose numbers can differ in their last bits between machines. Other kinds give the same on all of them."""

    def beside(self, recorded: Sequence[Appraisal], rounded: list[Rounding]) -> AppraiserKind:
        """The same kind for one dialogue: a `recorded` appraisal is given where another machine may have come to it, and `rounded` is told how far it is."""
        ...


@runtime_checkable
class ReadsAhead(Protocol):
    """An appraiser that is faster where it is told of a whole dialogue before it is asked about one reply after the other."""

    def ahead(self, exchanges: Sequence[Exchange]) -> Sequence[Future[Any]]:
        """What it begins with; whoever asks for no more of it cancels it."""
        ...


class SpeakerKind(Protocol):
    """Makes speakers. Construction does no work and calls nobody."""

    @property
    def tag(self) -> SimulatorTag: ...

    def speaker(self, persona: Persona, seed: int) -> Speaker: ...


class UserSession(Protocol):
    """One user for one dialogue, for life. Calls alternate: open, (appraise, speak), (appraise, speak), …"""

    async def open(self) -> Utterance:
        """The first message."""
        ...

    async def appraise(self, reply: str) -> Appraisal:
        """How the user feels about `reply` (thoughts already removed), and why. Raises SimulatorUnavailable."""
        ...

    async def speak(self, emotion: int) -> Utterance:
        """The next message, given the emotion after the last appraisal. Raises SimulatorUnavailable."""
        ...


class Simulator(Protocol):
    """Makes sessions. Construction does no work and calls nobody."""

    @property
    def tag(self) -> SimulatorTag: ...

    def session(self, persona: Persona, seed: int) -> UserSession: ...


@dataclass
class SimulatedUser:
    """The user session of an appraiser and a speaker. `emotion` is the present one, before the first `speak` that of the start."""

    appraiser: Appraiser
    speaker: Speaker
    emotion: int = EmotionRules.start
    _message: str = field(default="", init=False)
    _exchanges: list[Exchange] = field(default_factory=list, init=False)

    async def open(self) -> Utterance:
        return self._said(await self.speaker.open())

    async def appraise(self, reply: str) -> Appraisal:
        """A user unlike those the appraiser knows is unavailable: better no reward than a made-up one."""
        self._exchanges.append(Exchange(self._message, reply))
        try:
            appraisal = await self.appraiser.appraise(self._exchanges, self.emotion)
        except UnfamiliarUser as error:
            raise SimulatorUnavailable(str(error)) from error
        await self.speaker.hear(reply, appraisal)
        return appraisal

    async def speak(self, emotion: int) -> Utterance:
        self.emotion = emotion
        return self._said(await self.speaker.speak(emotion))

    def _said(self, utterance: Utterance) -> Utterance:
        self._message = utterance.text
        return utterance


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing, as those of users without a network; also inside a running event loop."""
    try:
        while coroutine.send(None) is None:  # it let others go first, as by asyncio.sleep(0)
            pass
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("a scripted session must not wait")


class ContextFull(RuntimeError):
    """The next reply would not fit into the context any more: the dialogue ends there, with the emotion so far."""


class PolicyUnavailable(RuntimeError):
    """There is no reply, and none to be had in this dialogue; it is unscorable, not worth zero."""


@dataclass(frozen=True)
class Reply:
    """One turn of the policy. Counts are None where nobody knows them."""

    said: Said
    cut_off: bool  # it ended at the limit of tokens
    reply_tokens: int | None
    think_tokens: int | None


class Tokens(NamedTuple):
    """What a dialogue was made of, both speakers, as it was sampled; all empty for a policy that gives text alone.

    `completion_ids` is everything after the first prompt. `is_policy_T` marks sampled tokens; `turn_T` is the 0-based turn a token
    belongs to; `logprob_T` is 0.0 on the user's tokens; `in_later_context_T` marks tokens that were in the context of later turns: all of them, or
    all but the thoughts.
    """

    prompt_ids: tuple[int, ...] = ()
    completion_ids: tuple[int, ...] = ()
    is_policy_T: tuple[bool, ...] = ()
    turn_T: tuple[int, ...] = ()
    logprob_T: tuple[float, ...] = ()
    in_later_context_T: tuple[bool, ...] = ()


class PolicySession(Protocol):
    """One supporter for one dialogue, for life."""

    async def reply(self, user: str) -> Reply:
        """What the policy says to the user's next message. Raises ContextFull or PolicyUnavailable."""
        ...

    @property
    def tokens(self) -> Tokens:
        """Of the dialogue so far."""
        ...

    def close(self) -> None:
        """The dialogue is over; what was kept for it may go."""
        ...


class Policy(Protocol):
    """Makes sessions. Construction does no work and calls nobody."""

    @property
    def name(self) -> str:
        """Stands in transcripts."""
        ...

    def start(self) -> None:
        """Call before the first dialogue and after every change of the weights."""
        ...

    async def close(self) -> None:
        """No more dialogues in this event loop."""
        ...

    def session(self, dialogue_id: str, seed: int, language: str) -> PolicySession:
        """`language` is the user's (en, zh)."""
        ...


def turn_seed(dialogue_id: str, seed: int, turn: int) -> int:
    """The seed of one policy turn, in 0..2**56-1: a function of the arguments only, so batching cannot change it."""
    return int.from_bytes(hashlib.sha256(f"{seed}|{dialogue_id}|{turn}".encode()).digest()[:7], "big")
