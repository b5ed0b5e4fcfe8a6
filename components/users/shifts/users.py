"""What a shift is: a change of the persona, or of the words in which its user says what it means. Pure functions; randomness comes in.

All shifts by name, and the users that a robustness report asks: who they are is the tag in the transcript, and nothing else. A shift can be put
over any user who is an appraiser and a speaker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import SimulatedUser, Simulator, Speaker, Utterance
from rlver.components.domain.transcript import Appraisal, SimulatorTag
from rlver.components.personas.people import stable_hash
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.components.users.scripted.simulator import ScriptedSimulator
from rlver.components.users.shifts import persons
from rlver.components.users.shifts import words as styles
from rlver.components.users.shifts.words import in_unseen_cues

Words = Callable[[str, Persona, Random], str]  # (what is meant, who says it, randomness of this message) -> what is said


@dataclass(frozen=True)
class Shift:
    """`person` keeps id, hidden need, class and traits. Raise `version` whenever a shifted message could come out differently.

    `scripted_only`: it exchanges sentences that no other speaker says.
    """

    name: str
    version: int
    about: str
    person: Callable[[Persona], Persona] = lambda persona: persona
    words: Words = lambda text, persona, random: text
    scripted_only: bool = False

    @property
    def tag(self) -> str:
        """As in `typos-2`: what stands behind the simulator's version in a transcript."""
        return f"{self.name}-{self.version}"


@dataclass(frozen=True)
class ShiftedUser:
    """Deterministic given persona, seed and replies, where the user is whom it shifts."""

    user: Simulator
    shift: Shift

    @property
    def tag(self) -> SimulatorTag:
        plain = self.user.tag
        return plain.model_copy(update={"version": f"{plain.version}+{self.shift.tag}"})

    def session(self, persona: Persona, seed: int) -> SimulatedUser:
        """Raises ValueError for a user who is not an appraiser and a speaker."""
        person = self.shift.person(persona)
        plain = self.user.session(person, seed)
        if not isinstance(plain, SimulatedUser):
            raise ValueError(
                f"{self.user.tag.kind}: its words cannot be shifted, for it is no appraiser with a speaker; leave this shift out"
            )
        return SimulatedUser(plain.appraiser, ShiftedSpeaker(plain.speaker, self.shift, person, seed), plain.emotion)


@dataclass
class ShiftedSpeaker:
    """Puts the words of a shift over those of another speaker, who remembers what was meant."""

    speaker: Speaker
    shift: Shift
    persona: Persona
    seed: int
    _messages: int = 0

    async def open(self) -> Utterance:
        return self._shifted(await self.speaker.open())

    async def hear(self, reply: str, appraisal: Appraisal) -> None:
        await self.speaker.hear(reply, appraisal)

    async def speak(self, emotion: int) -> Utterance:
        return self._shifted(await self.speaker.speak(emotion))

    def _shifted(self, meant: Utterance) -> Utterance:
        random = Random(stable_hash(self.shift.tag, self.persona.persona_id, self.seed, self._messages))
        self._messages += 1
        return replace(meant, text=self.shift.words(meant.text, self.persona, random))


UNSHIFTED = "unshifted"
SHIFTS = (
    Shift("familiar-names", 1, "people with first names of training users", person=persons.with_training_names),
    Shift("familiar-stories", 1, "stories that training users told", person=persons.with_a_training_story),
    Shift("unseen-cues", 1, "the need hinted at in sentences never used in training", words=in_unseen_cues, scripted_only=True),
    Shift("terse", 1, "short, without reactions and small words", words=styles.terse),
    Shift("rambling", 1, "long lead-ups, things that belong nowhere", words=styles.rambling),
    Shift("sarcastic", 1, "false delight before and after", words=styles.sarcastic),
    Shift("typos", 2, "one longer word in five mistyped", words=styles.with_typos),
    Shift("non-native", 1, "no articles, plain verbs, mixed-up prepositions", words=styles.non_native),
    Shift("very-young", 1, "as a child types", words=styles.very_young),
    Shift("very-old", 1, "as somebody well over eighty writes", words=styles.very_old),
)
_BY_TAG = {shift.tag: shift for shift in SHIFTS}


def users(difficulty: str, of: Callable[[str], Simulator] = ScriptedSimulator, scripted_words: bool = True) -> dict[str, Simulator]:
    """Every user of the report by the name of its row: the unshifted one first, the shifted ones, then those of other difficulties.

    `of` gives the user of a difficulty; `scripted_words`: it speaks as the scripted user does.
    """
    plain = of(difficulty)
    shifts = [shift for shift in SHIFTS if scripted_words or not shift.scripted_only]
    shifted: dict[str, Simulator] = {shift.tag: ShiftedUser(plain, shift) for shift in shifts}
    others: dict[str, Simulator] = {name: of(name) for name in DIFFICULTIES if name != difficulty}
    return {UNSHIFTED: plain} | shifted | others


def about(row: str) -> str:
    """What the row `row` of the report changes, in a few words."""
    if row == UNSHIFTED:
        return "the test personas as they are"
    return _BY_TAG[row].about if row in _BY_TAG else f"users of the difficulty {row}"


def unshifted(tag: SimulatorTag) -> tuple[SimulatorTag, Shift | None]:
    """Whose words were shifted, and by what; the tag itself and None where they were not."""
    plain, _, shift = tag.version.rpartition("+")
    return (tag.model_copy(update={"version": plain}), _BY_TAG[shift]) if shift in _BY_TAG else (tag, None)
