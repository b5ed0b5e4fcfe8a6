"""The experiment in MLflow is made once, however many processes look for it at the same time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Experiment
from mlflow.exceptions import MlflowException

from rlver.tasks.runtime.environment import EXPERIMENT
from rlver.tasks.tracking.store import TrackingUnavailable, open_store


def test_an_experiment_that_another_process_makes_meanwhile_is_used(
    tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = MlflowClient.get_experiment_by_name
    made: list[str] = []

    def made_after_the_first_look(self: MlflowClient, name: str) -> Experiment | None:
        found: Experiment | None = look(self, name)
        if found is None:
            made.append(str(self.create_experiment(name, artifact_location=(tmp_path / "mlartifacts").as_uri())))
        return found

    monkeypatch.setattr(MlflowClient, "get_experiment_by_name", made_after_the_first_look)
    assert [open_store(tmp_path, tracking_uri).experiment] == made


def test_a_copied_project_writes_nothing_into_the_first_one(tmp_path: Path, tracking_uri: str) -> None:
    first = tmp_path / "first"
    first.mkdir()
    (first / "mlflow.db").write_bytes(Path(tracking_uri.removeprefix("sqlite:///")).read_bytes())
    open_store(first, f"sqlite:///{first}/mlflow.db")
    copy = tmp_path / "copy"
    shutil.copytree(first, copy)
    with pytest.raises(TrackingUnavailable, match=r"copy/mlflow\.db would have MLflow's files written to .*first/mlartifacts, not here"):
        open_store(copy, f"sqlite:///{copy}/mlflow.db")
    assert open_store(first, f"sqlite:///{first}/mlflow.db").experiment


def test_a_link_in_place_of_the_files_folder_is_its_own_place(tmp_path: Path, tracking_uri: str) -> None:
    (tmp_path / "disk" / "é #1").mkdir(parents=True)
    (tmp_path / "mlartifacts").symlink_to(tmp_path / "disk" / "é #1")
    client = MlflowClient(tracking_uri=tracking_uri)
    made = client.create_experiment(
        EXPERIMENT, artifact_location=(tmp_path / "mlartifacts" / "3").as_uri()
    )  # as MLflow's own server makes it
    assert open_store(tmp_path, tracking_uri).experiment == made


def test_an_experiment_that_cannot_be_made_is_an_error(tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: MlflowClient, name: str, **_: object) -> str:
        raise MlflowException(f"no room for {name}")

    monkeypatch.setattr(MlflowClient, "create_experiment", refuse)
    with pytest.raises(MlflowException, match=f"no room for {EXPERIMENT}"):
        open_store(tmp_path, tracking_uri)


def test_a_deleted_experiment_is_told_with_what_to_do(tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client, deleted = MlflowClient(tracking_uri=tracking_uri), open_store(tmp_path, tracking_uri).experiment
    client.delete_experiment(deleted)
    with pytest.raises(
        TrackingUnavailable, match=rf"{EXPERIMENT} was deleted .*`mlflow experiments restore -x {deleted}`.* or set MLFLOW_EXPERIMENT_NAME"
    ):
        open_store(tmp_path, tracking_uri)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "another")
    assert open_store(tmp_path, tracking_uri).experiment != deleted
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME")
    client.restore_experiment(deleted)
    assert open_store(tmp_path, tracking_uri).experiment == deleted
