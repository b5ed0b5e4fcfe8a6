"""Who is meant by an appraiser on the command line, and asking it: `scripted[:DIFFICULTY]`, `llm[:DIFFICULTY]`, `distilled:FOLDER`, and others.

Transcripts as they are named on the command line: a file, or a variant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rlver.components.domain.files import BadFile
from rlver.components.domain.kinds import Wanted
from rlver.components.domain.protocols import AppraiserKind
from rlver.components.domain.registry import APPRAISERS
from rlver.components.domain.transcript import Dialogue, SimulatorTag
from rlver.components.replay.reappraisal import APPRAISER, WITHOUT_PERSONA
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import Settings, with_simulator
from rlver.components.users.shifts.users import unshifted
from rlver.components.users.together import NO_DIFFICULTY, Part, made, parts, put_together

if TYPE_CHECKING:
    from rlver.tasks.runtime.connections import Connection

T = TypeVar("T")


@dataclass(frozen=True)
class ReadyAppraiser:
    """An appraiser and, where it is a model, the connection that is open while it is asked."""

    appraiser: AppraiserKind
    connection: Connection | None = None

    def run(self, ask: Callable[[AppraiserKind], Coroutine[Any, Any, T]]) -> T:
        async def connected() -> T:
            async with self.connection or nullcontext():
                return await ask(self.appraiser)

        return asyncio.run(connected())


def is_appraiser(named: str) -> bool:
    return APPRAISERS.has(named.partition(":")[0])


def appraiser_of(named: str, settings: Settings) -> ReadyAppraiser:
    """The appraiser `named`; a model's server is found in order, so that nothing is spent in vain. Raises ValueError or EndpointError."""
    name, _, which = named.partition(":")
    if not is_appraiser(named):
        raise ValueError(f"unknown appraiser {named!r}: choose {known()}")
    part = Part(APPRAISERS, name, which)
    played = with_simulator(settings, None, None, appraiser=named)
    models = part.kind.models(played.simulator.wanted(name).parameters)
    if not models:
        return ReadyAppraiser(made(part, played.simulator.wanted(name)))
    from rlver.tasks.runtime.connections import to_user

    connection = to_user(played, models)
    connection.check()
    return ReadyAppraiser(made(part, played.simulator.wanted(name, endpoint=connection)), connection)


def recorded_user(settings: Settings, tag: SimulatorTag, is_appraiser: bool, appraiser: str, endpoint: Any = None) -> Any:
    """The Simulator whose tag a transcript has, or with `is_appraiser` the AppraiserKind, as the settings have it now. Raises ValueError.

    `appraiser` is NAME:WHICH of the one that the transcript was appraised by, for kinds that are no more than a name without it.
    """
    name, _, which = appraiser.partition(":")
    felt, _, spoken = tag.kind.partition("+")
    named = f"{felt}:{which}" if felt == name and which else felt
    if named == felt and APPRAISERS.has(felt) and (written := APPRAISERS.load(felt).written).startswith(":"):
        raise ValueError(f"say which one with --appraiser {felt}{written}")
    if is_appraiser:
        own = which if felt == name and APPRAISERS.load(felt).written.startswith(":") else ""  # a difficulty stands in the tag
        playing: tuple[Part, ...] = (Part(APPRAISERS, felt, own),)
    else:
        playing = parts(spoken, named, spoken) if spoken else parts(felt)
    for part in playing:
        part.registry.check(part.name)
        _ = part.kind.models(settings.simulator.wanted(part.name).parameters)  # raises where a model is to be named

    def wanted(kind: str) -> Wanted:
        return settings.simulator.wanted(kind, tag.difficulty, endpoint)

    return made(playing[0], wanted(felt)) if is_appraiser else put_together(playing, wanted)


def names_of(kind: str) -> list[str]:
    """Of a tag of this kind the appraiser and the speaker, or the one that is both."""
    return kind.removesuffix(WITHOUT_PERSONA).removesuffix(APPRAISER).split("+")


def is_same_appraiser(one: SimulatorTag, other: SimulatorTag) -> bool:
    """Whether both tags name one appraiser, as far as they tell: behind its version stands its speaker's, if there is one."""
    (name, demands, version), (other_name, other_demands, other_version) = map(_appraised_by, (one, other))
    is_as_demanding = demands == other_demands or not {demands, other_demands}.isdisjoint(NO_DIFFICULTY)
    return name == other_name and is_as_demanding and all(word == other for word, other in zip(version, other_version, strict=False))


def refuse_as_second(told: str, recorded: Iterable[Dialogue], first: Collection[SimulatorTag]) -> None:
    """Raise ValueError where the recorded second opinion `told` is of an appraiser in `first`, or of several."""
    tags = {dialogue.simulator for dialogue in recorded}
    if any(is_same_appraiser(tag, one) for tag in tags for one in first):
        raise ValueError(f"{told}: appraised by the dialogues' own user, and a second opinion is another's (`rlver appraise`)")
    if not all(is_same_appraiser(one, other) for one, other in combinations(tags, 2)):
        names = sorted({f"{names_of(tag.kind)[0]}:{tag.difficulty} ({tag.version})" for tag in tags})
        raise ValueError(f"{told}: appraised by {', '.join(names)}, and a second opinion is of one appraiser: name each by itself")


def _appraised_by(tag: SimulatorTag) -> tuple[str, str, list[str]]:
    """(name, difficulty, words of the version) of the appraiser in a tag, whatever was done to the words of its users."""
    plain, _ = unshifted(tag)
    version, _, behind = plain.version.partition(" appraised=")
    words = version.replace(" combined=", " appraiser=").split()  # one model, asked for both at once or for one
    return names_of(tag.kind)[0], behind.partition(" ")[0] or tag.difficulty, words


def known(at_once: bool = False) -> str:
    """All appraisers, or those that answer without a model behind an endpoint, as they are written, the last after `or`."""
    kinds = {name: APPRAISERS.load(name) for name in APPRAISERS.names()}
    *written, last = (f"{name}{kind.written}" for name, kind in kinds.items() if not (at_once and kind.asks_models))
    return f"{', '.join(written)} or {last}"


TRANSCRIPTS = Path("transcripts")


def file_of_variant(named: Path) -> Path | None:
    """transcripts/<variant>.jsonl of a bare variant name; None where a file is named. Raises BadFile for neither."""
    found = TRANSCRIPTS / f"{named}.jsonl"
    is_file = named.exists() and not named.is_dir()
    if is_file or len(named.parts) > 1 or (named.suffix and not found.is_file()):  # a variant may have a dot: qwen2.5-0.5b
        return None
    if not found.is_file():
        raise BadFile(f"{named}: neither a transcript file nor a variant with {found}; `rlver converse` writes transcripts")
    return found


def read_transcripts(named: Path) -> list[Dialogue]:
    """The dialogues of a file or of a variant. Raises BadFile."""
    return load_transcripts(file_of_variant(named) or named)
