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
from rlver.components.domain.protocols import About, Appraiser, AppraiserKind, SimulatedUser, Simulator, Speaker, SpeakerKind, UserSession
from rlver.components.domain.registry import APPRAISERS, SIMULATORS, SPEAKERS, Registry
from rlver.components.domain.transcript import SimulatorTag, Turn


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


def made(part: Part, wanted: Wanted) -> Any:
    """An AppraiserKind, a SpeakerKind or a Simulator, by the part's registry."""
    one = part.kind.make(replace(wanted, which=part.which))
    origin = part.registry.origin(part.name)
    if origin is None:
        return one
    return {"appraiser": BroughtAppraiser, "speaker": BroughtSpeaker, "simulator": BroughtSimulator}[part.registry.noun](
        one, part.name, origin
    )


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
        return SimulatorTag(kind=f"{felt.kind}+{spoken.kind}", difficulty=spoken.difficulty, version=f"{felt.version} {spoken.version}")

    def session(self, persona: Persona, seed: int) -> SimulatedUser:
        speaker = self.speaker.speaker(persona, seed)
        return SimulatedUser(self.appraiser.appraiser(About(persona), seed), speaker, self.emotion_start)


def _brought(tag: SimulatorTag, name: str, origin: str) -> SimulatorTag:
    """Under the name by which it is found again."""
    return tag.model_copy(update={"kind": name, "version": f"{tag.version} ({origin})"})


@dataclass(frozen=True)
class BroughtAppraiser:
    """An AppraiserKind of another package, `origin`."""

    kind: AppraiserKind
    registered: str
    origin: str

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def tag(self) -> SimulatorTag:
        return _brought(self.kind.tag, self.registered, self.origin)

    def appraiser(self, about: About, seed: int) -> Appraiser:
        return self.kind.appraiser(about, seed)

    def refusal(self, turns: Sequence[Turn]) -> str | None:
        return self.kind.refusal(turns)


@dataclass(frozen=True)
class BroughtSpeaker:
    """A SpeakerKind of another package, `origin`."""

    kind: SpeakerKind
    registered: str
    origin: str

    @property
    def tag(self) -> SimulatorTag:
        return _brought(self.kind.tag, self.registered, self.origin)

    def speaker(self, persona: Persona, seed: int) -> Speaker:
        return self.kind.speaker(persona, seed)


@dataclass(frozen=True)
class BroughtSimulator:
    """A Simulator of another package, `origin`."""

    kind: Simulator
    registered: str
    origin: str

    @property
    def tag(self) -> SimulatorTag:
        return _brought(self.kind.tag, self.registered, self.origin)

    def session(self, persona: Persona, seed: int) -> UserSession:
        return self.kind.session(persona, seed)
