"""Whom a command means: the personas of a file, else the project's own, else of the library."""

from __future__ import annotations

from pathlib import Path

from rlver.components.domain.persona import Persona
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


def personas_from(path: Path | None, own: Path, settings: Settings, split: int) -> tuple[list[Persona], str]:
    """The personas of `path`, else of the project's `own` file, else of a split of the library (0 train, 1 test); and where they are from."""
    path = own if path is None and own.is_file() else path
    if path is not None:
        return validate_file(path), str(path)
    return list(compose_personas(load_library(), settings.seed, settings.personas.train, settings.personas.test)[split]), "the library"
