"""What is decided before the model is asked: which story begins from what, and who has which need, class, traits and name.

Scenario k serves the personas k·m … k·m+m−1, each with another hidden need, so a scenario says nothing about the need. Nothing depends
on how many are ordered: a longer order begins with the shorter one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlver.components.domain.persona import SPEAKING_STYLES, TRAITS_OF_CLASS, HiddenNeed, PersonaClass
from rlver.tasks.studies.authoring.asking import PersonaOrder
from rlver.tasks.studies.authoring.language import Domain, Language, names_of, sparks_of

NEEDS = tuple(HiddenNeed)
CLASSES = tuple(PersonaClass)


@dataclass(frozen=True)
class Beginning:
    """What one scenario is asked to be about. `gender` is that of its users."""

    number: int
    domain: Domain
    role: str
    role_gender: str
    gender: str
    things: tuple[str, ...]
    moment: str


@dataclass(frozen=True)
class PersonaPlan:
    """One persona before it is written. `number` counts from 0."""

    number: int
    need: HiddenNeed
    persona_class: PersonaClass
    traits: tuple[str, ...]
    style: str
    full_name: str
    other: str


def beginning(order: PersonaOrder, number: int) -> Beginning:
    """Every eight scenarios in step have each domain once, and genders take turns."""
    sparks = sparks_of(order.language, order.split)
    rounds, place = divmod(number, len(sparks.domains))
    domain = _random(order, "domains", rounds).sample(sparks.domains, len(sparks.domains))[place]
    rng = _random(order, "beginning", number)
    role, role_gender = rng.choice(domain.roles)
    things = tuple(rng.sample(sparks.things, 2))
    return Beginning(number, domain, role, role_gender, "fm"[number % 2], things, rng.choice(sparks.moments))


def plans(order: PersonaOrder, language: Language, beginnings: Sequence[Beginning], per_scenario: int) -> Iterator[PersonaPlan]:
    """The personas of the order, whose scenarios begin as given. Every eight in step from the start have each need once.

    Raises ValueError when half of the names are used up.
    """
    pool = names_of(order.language, order.split)
    used: dict[str, set[str]] = {gender: set() for gender in pool.first_names}
    for number in range(order.count):
        rounds, place = divmod(number, len(NEEDS))
        need = _random(order, "needs", rounds).sample(NEEDS, len(NEEDS))[place]
        persona_class = CLASSES[(NEEDS.index(need) + rounds) % len(CLASSES)]
        begins = beginnings[number // per_scenario]
        rng = _random(order, "part", number)
        traits = tuple(rng.sample(TRAITS_OF_CLASS[persona_class], 3))
        first_names = pool.first_names[begins.gender]
        if len(used[begins.gender]) >= len(first_names) * len(pool.surnames) // 2:
            raise ValueError(f"the names of the {order.split} split are used up after {number} personas: order fewer")
        while (full_name := language.full_name(rng.choice(pool.surnames), first := rng.choice(first_names))) in used[begins.gender]:
            pass
        used[begins.gender].add(full_name)
        other = rng.choice([one for one in pool.first_names[begins.role_gender] if one != first])
        yield PersonaPlan(number, need, persona_class, traits, rng.choice(SPEAKING_STYLES), full_name, other)


def _random(order: PersonaOrder, what: str, number: int) -> random.Random:
    return random.Random(f"authoring|{order.language}|{order.split}|{order.seed}|{what}|{number}")
