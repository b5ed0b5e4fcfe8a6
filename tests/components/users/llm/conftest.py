"""An English persona of the library and a Chinese one that was imported as text."""

from __future__ import annotations

import pytest
from fakes import people
from profiles import profile, write_profiles

from rlver.components.domain.persona import Persona
from rlver.components.personas.profiles import import_profiles


@pytest.fixture(scope="session")
def english() -> Persona:
    return next(persona for persona in people()[0] if persona.hidden_need == "attentive_listening")


@pytest.fixture(scope="session")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Persona:
    """Without a first line, as the training profiles of RLVER are."""
    return import_profiles(write_profiles(tmp_path_factory.mktemp("zh") / "profiles.jsonl", profile()), "train")[0]


@pytest.fixture(scope="session", params=["en", "zh"])
def persona(request: pytest.FixtureRequest, english: Persona, chinese: Persona) -> Persona:
    return english if request.param == "en" else chinese
