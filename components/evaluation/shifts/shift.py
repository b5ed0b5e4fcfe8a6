"""What a shift is: a change of the persona, or of the words in which its user says what it means. Pure functions; randomness comes in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from components.personas.persona import Persona

Words = Callable[[str, Persona, Random], str]  # (what is meant, who says it, randomness of this message) -> what is said


def as_meant(text: str, persona: Persona, random: Random) -> str:
    """The words unchanged."""
    return text


def as_is(persona: Persona) -> Persona:
    """The persona unchanged."""
    return persona


@dataclass(frozen=True)
class Shift:
    """`person` keeps id, hidden need, class and traits. Raise `version` whenever a shifted message could come out differently."""

    name: str
    version: int
    about: str
    person: Callable[[Persona], Persona] = as_is
    words: Words = as_meant

    @property
    def tag(self) -> str:
        """As in `typos-1`: what stands behind the simulator's version in a transcript."""
        return f"{self.name}-{self.version}"
