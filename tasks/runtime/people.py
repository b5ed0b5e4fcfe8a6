"""Whom a command means: the personas of a file, else the project's own, else of the library."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.personas.schema import validate_file
from rlver.components.settings.settings import Settings
from rlver.tasks.runtime.options import TEST_PERSONAS


def known_personas(path: Path | None, root: Path = Path()) -> list[Persona]:
    """The personas of `path`; without one, the project's own test personas, and nobody where there are none. Raises BadFile, InvalidPersonas."""
    if path is not None:
        return validate_file(path)
    own = root / TEST_PERSONAS
    return validate_file(own) if own.is_file() else []


def people_met(path: Path | None, dialogues: Iterable[Dialogue]) -> list[Persona]:
    """The known personas, for the classes and scenarios of these dialogues; warns where some are with others."""
    people = known_personas(path)
    warn_of_strangers(people, dialogues, path)
    return people


def warn_of_strangers(people: Sequence[Persona], dialogues: Iterable[Dialogue], path: Path | None) -> None:
    """Say on standard error how many personas of the dialogues are not among `people`, those of `path`: nobody knows whose scenario is whose."""
    met = {dialogue.persona_id for dialogue in dialogues}
    if people and (strangers := met - {persona.persona_id for persona in people}):
        told = f"{len(strangers)} of {len(met)} personas are not in {path or TEST_PERSONAS}, so each counts as a story of its own"
        print(f"warning: {told}, and intervals may be too narrow; name the file of these personas (--personas)", file=sys.stderr)


def personas_from(path: Path | None, own: Path, settings: Settings, split: int) -> tuple[list[Persona], str]:
    """The personas of `path`, else of the project's `own` file, else of a split of the library (0 train, 1 test); and where they are from."""
    path = own if path is None and own.is_file() else path
    if path is not None:
        return validate_file(path), str(path)
    return list(compose_personas(load_library(), settings.seed, settings.personas.train, settings.personas.test)[split]), "the library"
