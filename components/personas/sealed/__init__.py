"""The sealed test: personas whose scenarios and hints no ordinary command reads. `rlver personas unseal` alone composes them.

A test set that is looked at often slowly becomes one that is tuned on. This one is opened for a claim, and every opening is written down.
A sealed persona carries its own hints (`story.presses`), so that the talking user needs no file that it could read otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlver.components.domain.files import load_yaml
from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.personas.generator import compose_split
from rlver.components.personas.library import load_library

SPLIT = "sealed"
_FOLDER = Path(__file__).parent


def compose_sealed(seed: int, count: int) -> list[Persona]:
    """`count` personas of the sealed test; they share first names with the ordinary test, and nothing with train."""
    scenarios, said = list(load_library(_FOLDER / "scenarios").scenarios), hints()
    return [_hinting(one, said[one.hidden_need]) for one in compose_split(SPLIT, scenarios, seed, count)]


def hints() -> dict[HiddenNeed, list[str]]:
    """How each need shows, in words of this test alone. {role} is the other person's role."""
    read: dict[str, Any] = load_yaml(_FOLDER / "cues.yaml")
    return {need: list(read[need]) for need in HiddenNeed}


def _hinting(persona: Persona, hints: list[str]) -> Persona:
    story = persona.story
    assert story is not None
    presses = tuple(one.replace("{role}", story.other.role) for one in hints)
    return persona.model_copy(update={"story": story.model_copy(update={"presses": presses})})
