"""Which scenario a persona is of, as far as a personas file says so: what intervals are over (components/scoring/units.py)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rlver.components.domain.persona import Persona
from rlver.components.personas.schema import validate_file
from rlver.tasks.runtime.options import TEST_PERSONAS


def scenarios_of(personas: Iterable[Persona]) -> dict[str, str]:
    """Scenario id by persona id; imported personas have none."""
    return {persona.persona_id: persona.story.scenario_id for persona in personas if persona.story is not None}


def known_personas(path: Path | None, root: Path = Path()) -> list[Persona]:
    """The personas of `path`; without one, the project's own test personas, and nobody where there are none. Raises BadFile, InvalidPersonas."""
    if path is not None:
        return validate_file(path)
    own = root / TEST_PERSONAS
    return validate_file(own) if own.is_file() else []
