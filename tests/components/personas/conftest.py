"""A hand-sized library: four domains with four scenarios each, enough to be split and short enough to be read."""

from __future__ import annotations

import pytest
from scenarios import scenario

from rlver.components.domain.persona import Persona
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import Library, Scenario


@pytest.fixture(scope="session")
def library() -> Library:
    domains = ("family", "work", "money", "friends")
    return Library(scenarios=tuple(Scenario.model_validate(scenario(domain, number)) for domain in domains for number in range(1, 5)))


@pytest.fixture(scope="session")
def personas(library: Library) -> tuple[list[Persona], list[Persona]]:
    return compose_personas(library, seed=7, train=48, test=24)


@pytest.fixture
def persona(personas: tuple[list[Persona], list[Persona]]) -> Persona:
    return personas[0][0]
