"""`rlver env serve`: whom it lends. The server itself is tested beside the adapters, in the environment of openenv."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlver.components.domain.files import write_jsonl
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.settings.settings import load_settings
from rlver.tasks.commands.env import people


def test_in_a_folder_of_the_project_its_own_people_are_lent(toy: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, _ = compose_personas(load_library(), 7, 2, 2)
    (toy / "data" / "personas").mkdir(parents=True)
    write_jsonl(toy / "data" / "personas" / "train.jsonl", [one.model_dump(mode="json") for one in train])
    (toy / "notes").mkdir()
    monkeypatch.chdir(toy / "notes")
    assert people(None, load_settings(repository_root / "params.yaml")) == train
