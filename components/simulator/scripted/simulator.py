"""The scripted simulator behind the common protocol; and the version that every transcript carries."""

from __future__ import annotations

from dataclasses import dataclass, field

from components.dialogue.transcript import Appraisal, SimulatorTag
from components.personas.persona import Persona
from components.simulator.protocol import Utterance
from components.simulator.scripted import speaker
from components.simulator.scripted.appraiser import Exchange, Listener, appraise
from components.simulator.scripted.effects import DIFFICULTIES

VERSION = "scripted-3"  # raise it whenever a recorded emotion or message could come out differently


@dataclass(frozen=True)
class ScriptedSimulator:
    """Deterministic given persona, seed and replies; needs personas with a structured story."""

    difficulty: str

    def __post_init__(self) -> None:
        if self.difficulty not in DIFFICULTIES:
            raise ValueError(f"unknown difficulty {self.difficulty!r}: choose one of {', '.join(DIFFICULTIES)}")

    @property
    def tag(self) -> SimulatorTag:
        return SimulatorTag(kind="scripted", difficulty=self.difficulty, version=VERSION)

    def session(self, persona: Persona, seed: int) -> ScriptedSession:
        return ScriptedSession(persona, seed, self.difficulty)


@dataclass
class ScriptedSession:
    """One user in one dialogue. Keeps the dialogue so far and nothing else."""

    persona: Persona
    seed: int
    difficulty: str
    _earlier: list[Exchange] = field(default_factory=list)
    _messages: list[str] = field(default_factory=list)
    _cues: list[bool] = field(default_factory=list)
    _last_change: int = 0

    async def open(self) -> Utterance:
        return self._said(speaker.opening(self.persona))

    async def appraise(self, reply: str) -> Appraisal:
        listener = Listener(self.persona.hidden_need, self.persona.persona_class, self.persona.traits)
        appraisal = appraise(listener, DIFFICULTIES[self.difficulty], self._earlier, self._messages[-1], reply)
        await self.hear(reply, appraisal)
        return appraisal

    async def hear(self, reply: str, appraisal: Appraisal) -> None:
        """Take `reply` and what was made of it, also by another appraiser."""
        self._earlier.append(Exchange(self._messages[-1], reply))
        self._last_change = appraisal.change

    async def speak(self, emotion: int) -> Utterance:
        cue_rate = DIFFICULTIES[self.difficulty].cue_rate
        return self._said(speaker.next_message(self.persona, self.seed, cue_rate, self._messages, self._cues, self._last_change, emotion))

    def _said(self, utterance: Utterance) -> Utterance:
        self._messages.append(utterance.text)
        self._cues.append(utterance.cue is True)
        return utterance
