"""The scripted user under a shift, behind the common protocol.

What the user *means* decides how it goes on; what it *says* is what the policy reads and what replies are appraised against, by the
unchanged rules. So a shifted transcript can be appraised again from its own words alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from components.dialogue.transcript import Appraisal, SimulatorTag
from components.evaluation.shifts.shift import Shift
from components.personas.people import stable_hash
from components.personas.persona import Persona
from components.simulator.protocol import Utterance
from components.simulator.scripted import speaker
from components.simulator.scripted.appraiser import Exchange, Listener, appraise
from components.simulator.scripted.effects import DIFFICULTIES
from components.simulator.scripted.simulator import VERSION


@dataclass(frozen=True)
class ShiftedUser:
    """Deterministic given persona, seed and replies, as the user it shifts."""

    difficulty: str
    shift: Shift

    @property
    def tag(self) -> SimulatorTag:
        return SimulatorTag(kind="scripted", difficulty=self.difficulty, version=f"{VERSION}+{self.shift.tag}")

    def session(self, persona: Persona, seed: int) -> ShiftedSession:
        return ShiftedSession(self.shift.person(persona), seed, self.difficulty, self.shift)


@dataclass
class ShiftedSession:
    """One user in one dialogue. `_meant` and `_said` are the same messages before and after the shift."""

    persona: Persona
    seed: int
    difficulty: str
    shift: Shift
    _meant: list[str] = field(default_factory=list)
    _said: list[str] = field(default_factory=list)
    _cues: list[bool] = field(default_factory=list)
    _earlier: list[Exchange] = field(default_factory=list)
    _last_change: int = 0

    async def open(self) -> Utterance:
        return self._utter(speaker.opening(self.persona))

    async def appraise(self, reply: str) -> Appraisal:
        listener = Listener(self.persona.hidden_need, self.persona.persona_class, self.persona.traits)
        appraisal = appraise(listener, DIFFICULTIES[self.difficulty], self._earlier, self._said[-1], reply)
        self._earlier.append(Exchange(self._said[-1], reply))
        self._last_change = appraisal.change
        return appraisal

    async def speak(self, emotion: int) -> Utterance:
        cue_rate = DIFFICULTIES[self.difficulty].cue_rate
        return self._utter(speaker.next_message(self.persona, self.seed, cue_rate, self._meant, self._cues, self._last_change, emotion))

    def _utter(self, meant: Utterance) -> Utterance:
        random = Random(stable_hash(self.shift.tag, self.persona.persona_id, self.seed, len(self._said)))
        said = replace(meant, text=self.shift.words(meant.text, self.persona, random))
        self._meant.append(meant.text)
        self._said.append(said.text)
        self._cues.append(meant.cue is True)
        return said
