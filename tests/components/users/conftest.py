"""The personas that the generator really makes."""

from __future__ import annotations

import pytest

from rlver.components.domain.persona import Persona
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library


@pytest.fixture(scope="session")
def personas() -> tuple[list[Persona], list[Persona]]:
    return compose_personas(load_library(), seed=7, train=96, test=104)


@pytest.fixture(scope="session")
def train(personas: tuple[list[Persona], list[Persona]]) -> list[Persona]:
    return personas[0]


@pytest.fixture(scope="session")
def unseen(personas: tuple[list[Persona], list[Persona]]) -> list[Persona]:
    return personas[1]
