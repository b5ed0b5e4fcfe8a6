"""Users who speak as another simulator does and feel as the recorded users did: its speaker, the distilled appraiser."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from components.dialogue.transcript import Appraisal, SimulatorTag
from components.personas.persona import Persona
from components.simulator.distilled.appraiser import Appraiser
from components.simulator.distilled.folder import read_folder
from components.simulator.distilled.model import UnfamiliarUser
from components.simulator.distilled.moment import known_of
from components.simulator.protocol import SimulatorUnavailable, Utterance

KIND = "distilled"


class SpeakerSession(Protocol):
    """A user session that can be told what it feels."""

    async def open(self) -> Utterance: ...

    async def hear(self, reply: str, appraisal: Appraisal) -> None:
        """Take `reply` and what another appraiser made of it, in place of `appraise`."""
        ...

    async def speak(self, emotion: int) -> Utterance: ...


class Speaker(Protocol):
    @property
    def tag(self) -> SimulatorTag: ...

    def session(self, persona: Persona, seed: int) -> SpeakerSession: ...


@dataclass(frozen=True)
class DistilledSimulator:
    """`folder` is what `rlver distil` wrote; it is read when it is first needed."""

    speaker: Speaker
    folder: Path

    @property
    def tag(self) -> SimulatorTag:
        spoken = self.speaker.tag
        return SimulatorTag(
            kind=f"{KIND}+{spoken.kind}", difficulty=spoken.difficulty, version=f"{read_folder(self.folder).version} {spoken.version}"
        )

    def session(self, persona: Persona, seed: int) -> DistilledSession:
        return DistilledSession(self.speaker.session(persona, seed), Appraiser(read_folder(self.folder), known_of(persona)))


@dataclass
class DistilledSession:
    """One user in one dialogue, for life."""

    speaker: SpeakerSession
    appraiser: Appraiser
    _message: str = field(default="", init=False)

    async def open(self) -> Utterance:
        return self._said(await self.speaker.open())

    async def appraise(self, reply: str) -> Appraisal:
        """See UserSession. Raises SimulatorUnavailable for a user unlike the recorded ones: better no reward than a made-up one."""
        try:
            appraisal = self.appraiser.appraise(self._message, reply)
        except UnfamiliarUser as error:
            raise SimulatorUnavailable(str(error)) from error
        await self.speaker.hear(reply, appraisal)
        return appraisal

    async def speak(self, emotion: int) -> Utterance:
        return self._said(await self.speaker.speak(emotion))

    def _said(self, utterance: Utterance) -> Utterance:
        self._message = utterance.text
        return utterance
