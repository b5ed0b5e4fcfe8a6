"""From names to users: a simulator, or the appraiser of one kind with the speaker of another.

What another package made carries the name of its kind and the package's name and version in the tag: a transcript says whose code decided it, and
`rlver verify` refuses to derive it again with another release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlver.components.domain.kinds import UserKind, Wanted
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import About, AppraiserKind, SimulatedUser, Simulator, SpeakerKind
from rlver.components.domain.registry import APPRAISERS, SIMULATORS, SPEAKERS, Registry
from rlver.components.domain.transcript import SimulatorTag

NO_DIFFICULTY = ("recorded", "any")  # in the tags of appraisers that have only one way: distilled, and as docs/extending.md writes it


@dataclass(frozen=True)
class Part:
    """One kind that plays in a user. `which` is what stands behind its name, as FOLDER in distilled:FOLDER; "" where nothing does."""

    registry: Registry
    name: str
    which: str = ""

    @property
    def kind(self) -> UserKind:
        """Raises UnknownKind."""
        loaded: UserKind = {"appraiser": APPRAISERS.load, "speaker": SPEAKERS.load, "simulator": SIMULATORS.load}[self.registry.noun](
            self.name
        )
        return loaded


def parts(simulator: str, appraiser: str | None = None, speaker: str | None = None) -> tuple[Part, ...]:
    """Who plays: the simulator alone, or its two halves where `appraiser` or `speaker` (NAME or NAME:WHICH) takes the place of its own."""
    if appraiser is None and speaker is None:
        return (Part(SIMULATORS, simulator),)
    return Part(APPRAISERS, *_named(appraiser or simulator)), Part(SPEAKERS, *_named(speaker or simulator))


def put_together(playing: Sequence[Part], wanted: Callable[[str], Wanted]) -> Simulator:
    """The simulator of these parts; `wanted` says of a kind's name what it is made from. Raises UnknownKind, and what the kinds raise."""
    first, *second = (made(part, wanted(part.name)) for part in playing)
    if not second:
        simulator: Simulator = first
        return simulator
    return Together(first, second[0], wanted(playing[0].name).emotion_start)


def user_of(section: Any, difficulty: str | None = None, endpoint: Any = None) -> Simulator:
    """The user that a section `simulator` of the settings chooses, or one of another difficulty; models are asked through `endpoint`."""
    return put_together(section.parts, lambda name: section.wanted(name, difficulty, endpoint))


def made(part: Part, wanted: Wanted) -> Any:
    """An AppraiserKind, a SpeakerKind or a Simulator, by the part's registry."""
    one = part.kind.make(replace(wanted, which=part.which))
    origin = part.registry.origin(part.name)
    if origin is None:
        return one
    return Brought(one, part.name, origin)


def _named(written: str) -> tuple[str, str]:
    name, _, which = written.partition(":")
    return name, which


@dataclass(frozen=True)
class Together:
    """Users who speak as one kind does and feel as another."""

    appraiser: AppraiserKind
    speaker: SpeakerKind
    emotion_start: int

    @property
    def tag(self) -> SimulatorTag:
        felt, spoken = self.appraiser.tag, self.speaker.tag
        apart = "" if felt.difficulty in (spoken.difficulty, *NO_DIFFICULTY) else f" appraised={felt.difficulty}"
        return SimulatorTag(
            kind=f"{felt.kind}+{spoken.kind}", difficulty=spoken.difficulty, version=f"{felt.version}{apart} {spoken.version}"
        )

    def session(self, persona: Persona, seed: int) -> SimulatedUser:
        speaker = self.speaker.speaker(persona, seed)
        return SimulatedUser(self.appraiser.appraiser(About(persona), seed), speaker, self.emotion_start)


@dataclass(frozen=True)
class Brought:
    """A kind of another package, `origin`: as it is, but for its tag, which has the name under which it is found again."""

    kind: Any  # AppraiserKind, SpeakerKind or Simulator
    registered: str
    origin: str

    @property
    def tag(self) -> SimulatorTag:
        tag: SimulatorTag = self.kind.tag
        return tag.model_copy(update={"kind": self.registered, "version": f"{tag.version} ({self.origin})"})

    def __getattr__(self, name: str) -> Any:
        return super().__getattribute__(name) if name.startswith("__") else getattr(self.kind, name)
