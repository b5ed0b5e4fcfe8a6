"""Where the registry lies: with the runs, unless the environment names another place."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from rlver.tasks.tracking import models
from rlver.tasks.tracking.registry import CHAMPION, MODEL, ModelRegistry, RegistryError, Version
from rlver.tasks.tracking.store import TrackingUnavailable, open_store


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


def test_the_run_of_a_registration_that_breaks_off_has_failed(tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path, tracking_uri)
    with pytest.raises(
        RegistryError, match=r"not hold all of the model of a: set .* to full where it stands, then run `rlver mlflow sync`"
    ):
        ModelRegistry(tracking_uri).register("a", "0", "a card", {}, {})
    monkeypatch.setattr(models, "known", lambda *_: [SimpleNamespace(artifact_location=str(tmp_path), model_id=None)])

    def breaks(*_: object, **__: object) -> None:
        raise MlflowException("no such model")

    monkeypatch.setattr(MlflowClient, "create_model_version", breaks)
    with pytest.raises(TrackingUnavailable, match="no such model"):
        ModelRegistry(tracking_uri).register("a", "0", "a card", {"general.json": "{}"}, {})
    assert [run.info.status for run in store.runs("tags.stage = 'register'")] == ["FAILED"]

    monkeypatch.setattr(MlflowClient, "set_terminated", breaks)
    with pytest.raises(TrackingUnavailable, match="no such model"):
        ModelRegistry(tracking_uri).register("a", "0", "a card", {}, {})


@pytest.mark.long
def test_nobody_is_crowned_over_a_champion_that_it_was_not_compared_with(tracking_uri: str, tmp_path: Path) -> None:
    registry, client = ModelRegistry(tracking_uri), MlflowClient(tracking_uri=tracking_uri)
    client.create_registered_model(MODEL)
    for variant in "ab":
        run = client.create_run("0").info.run_id
        client.create_model_version(MODEL, str(tmp_path), run_id=run, tags={"variant": variant, "md5": variant})
    first, second = (
        Version(number, variant, variant, client.get_model_version(MODEL, number).run_id, None)
        for number, variant in (("1", "a"), ("2", "b"))
    )
    registry.crown(first, None)
    with pytest.raises(RegistryError, match=r"the champion has changed to version 1 \(a\) since this was judged"):
        registry.crown(second, None)
    registry.crown(second, registry.champion())
    assert str(registry.champion()) == "version 2 (b)"
