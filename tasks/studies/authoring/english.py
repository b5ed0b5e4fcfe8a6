"""What the scenario library says of a persona in English, under the names that `chinese` has too."""

from __future__ import annotations

from collections.abc import Sequence

from rlver.components.domain.persona import HiddenNeed, PersonaClass
from rlver.components.personas.generator import background_of
from rlver.components.personas.needs import WORDS, stated_need
from rlver.components.personas.people import CLASSES, STYLES, TRAITS, reactions

__all__ = ["background_of", "character", "need_text", "reactions", "stated_need", "who"]


def need_text(need: HiddenNeed) -> str:
    return WORDS[need].need_text


def character(name: str, persona_class: PersonaClass, traits: Sequence[str], style: str) -> list[str]:
    """Sentences on traits, way of speaking and class."""
    return [sentence.replace("{name}", name) for sentence in (*(TRAITS[trait] for trait in traits), STYLES[style], CLASSES[persona_class])]


def who(full_name: str, age: int, gender: str, occupation: str, hobbies: Sequence[str]) -> str:
    name = full_name.split()[0]
    person = f"{full_name} is a {'woman' if gender == 'f' else 'man'} of {age} and {occupation}."
    return f"{person} {name} likes {', '.join(hobbies[:-1])} and {hobbies[-1]}."
