"""What every simulator offers, whatever is inside: a session per dialogue that opens, appraises and speaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from components.dialogue.transcript import Appraisal, SimulatorTag
from components.personas.persona import Persona


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
