"""What every simulator offers, whatever is inside: a session per dialogue that opens, appraises and speaks.

What every policy offers, whatever is inside: a session per dialogue that hears the user and replies.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rlver.components.domain.persona import Persona
from rlver.components.domain.thinking import Said
from rlver.components.domain.transcript import Appraisal, SimulatorTag


class SimulatorUnavailable(RuntimeError):
    """The user could not be simulated (after bounded retries); the dialogue is unscorable, not worth zero."""


@dataclass(frozen=True)
class Utterance:
    """What the user says. `wants_to_end` is an explicit flag; nobody searches the text for goodbye words."""

    text: str
    cue: bool | None  # the message hints at the hidden need; None when nobody knows
    wants_to_end: bool = False


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


class ContextFull(RuntimeError):
    """The next reply would not fit into the context any more."""


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
