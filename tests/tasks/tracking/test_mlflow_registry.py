"""Where the registry lies: with the runs, unless the environment names another place."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from rlver.tasks.tracking.registry import CHAMPION, MODEL, ModelRegistry


@pytest.mark.long
def test_the_champion_is_looked_for_where_the_environment_says(tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = f"sqlite:///{tmp_path / 'registry.db'}"
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", elsewhere)
    assert ModelRegistry(tracking_uri).champion() is None, "the place is made, and nobody is there"
    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=elsewhere)
    client.create_registered_model(MODEL)
    version = client.create_model_version(MODEL, str(tmp_path), tags={"variant": "a", "md5": "0"})
    client.set_registered_model_alias(MODEL, CHAMPION, version.version)
    champion = ModelRegistry(tracking_uri).champion()
    assert champion is not None and champion.variant == "a"

    monkeypatch.delenv("MLFLOW_REGISTRY_URI")
    assert ModelRegistry(tracking_uri).champion() is None
