"""What is logged of results that lie on disk already: once, all of it, and as the settings of its variant say."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tracked_project import LOCK, read

from rlver.components.domain.files import BadFile
from rlver.tasks.graph import dvc
from rlver.tasks.tracking import records
from rlver.tasks.tracking.models import LogModels
from rlver.tasks.tracking.recorder import MlflowRecorder, log_pipeline, sync


@pytest.fixture
def locked(finished: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The finished project with parameters and a lock."""
    shutil.copy(repository_root / "params.yaml", finished)
    real = {name: replace(stage, outputs={path: dvc.md5_of(finished / path) for path in stage.outputs}) for name, stage in LOCK.items()}
    monkeypatch.setattr("rlver.tasks.graph.dvc.locked", lambda root: real)
    monkeypatch.setattr("rlver.tasks.graph.dvc.changed", lambda root, stages: {})
    return finished


@pytest.mark.long
def test_sync_adds_every_result_that_no_run_holds_once(locked: Path, tracking_uri: str) -> None:
    assert sync(locked, tracking_uri).endswith(
        f": 0 runs were waiting, 0 still are; {len(LOCK) + 1} runs added for results that none held"  # with their pipeline's
    )
    assert sync(locked, tracking_uri).endswith("0 runs added for results that none held")


@pytest.mark.long
def test_sync_names_no_commit_where_the_code_is_another_by_now(locked: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    monkeypatch.setattr("rlver.tasks.tracking.records.revision", lambda root: records.Revision("c0ffee" * 6, False))
    monkeypatch.setattr("rlver.tasks.graph.dvc.changed", lambda root, stages: {"score@v": ["changed deps: components"]})
    sync(locked, tracking_uri)
    commits = {
        run.data.tags["stage"]: run.data.tags.get("mlflow.source.git.commit")
        for run in MlflowClient(tracking_uri=tracking_uri).search_runs(["1"])
        if "stage" in run.data.tags
    }
    assert {stage for stage, commit in commits.items() if commit is None} == {"score@v"}, commits


@pytest.mark.long
def test_sync_leaves_a_stage_alone_that_a_run_is_at_work_on(locked: Path, tracking_uri: str) -> None:
    """DVC has its results already, and the run beside is about to record them."""
    with MlflowRecorder(locked, tracking_uri, "full") as beside:
        entry = beside.begin("train@v")
        others = f"; {len(LOCK)} runs added"  # all stages but one, and their pipeline's
        assert others in sync(locked, tracking_uri)
        beside.finish(entry, records.read(locked, "train@v", dvc.locked(locked)))
    assert sync(locked, tracking_uri).endswith("0 runs added for results that none held")


@pytest.mark.long
def test_sync_leaves_out_what_is_not_here_and_logs_it_once_it_is(locked: Path, tracking_uri: str) -> None:
    """A clone has dvc.lock, and no outputs until `dvc pull`. A run without them would count as the one that holds them."""
    from mlflow import MlflowClient

    away = locked.with_name("away")
    away.mkdir()
    for name in ("models", "transcripts"):
        shutil.move(locked / name, away)
    assert sync(locked, tracking_uri).endswith(
        f"; {len(LOCK) - 1} runs added for results that none held; 2 stages left out, their files are not here: `dvc pull` brings them"
    )
    for name in ("models", "transcripts"):
        shutil.move(away / name, locked)
    assert sync(locked, tracking_uri).endswith("; 3 runs added for results that none held")
    (model,) = MlflowClient(tracking_uri=tracking_uri).search_logged_models(["1"])
    assert (model.tags["md5"], model.tags["log_models"]) == (dvc.md5_of(locked / "models/v"), "full")


@pytest.mark.long
def test_sync_leaves_out_what_is_not_what_the_lock_says(locked: Path, tracking_uri: str) -> None:
    """After `git pull` without `dvc pull` the old weights lie beside the new lock: they would stand under the new name for good."""
    from mlflow import MlflowClient

    weights = locked / "models/v/model.safetensors"
    right = weights.read_text()
    weights.write_text("those of before")
    assert sync(locked, tracking_uri).endswith(
        "; 1 stages left out, their files are not those of dvc.lock: `dvc pull` or `rlver run` brings these"
    )
    assert MlflowClient(tracking_uri=tracking_uri).search_logged_models(["1"]) == []
    weights.write_text(right)
    assert sync(locked, tracking_uri).endswith("; 2 runs added for results that none held")
    (model,) = MlflowClient(tracking_uri=tracking_uri).search_logged_models(["1"])
    assert model.tags["md5"] == dvc.md5_of(locked / "models/v")


@pytest.mark.long
@pytest.mark.parametrize("file", ["head.json", "end.json"])
def test_an_entry_that_cannot_be_read_keeps_no_result_from_being_logged(locked: Path, tracking_uri: str, file: str) -> None:
    from mlflow import MlflowClient

    entry = MlflowRecorder(locked, tracking_uri, "full").spool.begin("train@v", None, {})
    entry.close("FINISHED")
    (entry.folder / file).write_text('{"of": "another version"}')
    with pytest.raises(BadFile, match=rf"another version of rlver .*; {len(LOCK) + 1} runs were added for other results"):
        sync(locked, tracking_uri)
    assert {run.info.status for run in MlflowClient(tracking_uri=tracking_uri).search_runs(["1"])} == {"FINISHED"}


@pytest.mark.long
def test_a_result_that_mlflow_refuses_keeps_no_other_from_being_logged(locked: Path, tracking_uri: str) -> None:
    from mlflow import MlflowClient

    lock = dvc.locked(locked)
    lock["personas"] = replace(lock["personas"], parameters={"params.yaml": {"longer than MLflow takes" * 20: 1}})
    for _ in range(2):
        with pytest.raises(
            BadFile, match=r"^personas: MLflow: 'Param key' exceeds .*; that run cannot be sent; \d runs were added for other results"
        ):
            sync(locked, tracking_uri)
    ended = {run.info.run_name for run in MlflowClient(tracking_uri=tracking_uri).search_runs(["1"], "attributes.status = 'FINISHED'")}
    assert {*LOCK} - ended == {"personas"}


@pytest.mark.long
def test_a_model_that_was_only_named_is_logged_once_it_is_wanted(finished: Path, tracking_uri: str) -> None:
    from mlflow import MlflowClient

    def record_all(log_models: LogModels) -> dict[str, str]:
        with MlflowRecorder(finished, tracking_uri, log_models) as recorder:
            return log_pipeline(recorder, read(finished))

    named, logged = record_all("reference"), record_all("full")
    assert {name for name in LOCK if logged[name] != named[name]} == {"train@v"}
    models = MlflowClient(tracking_uri=tracking_uri).search_logged_models(["1"])
    assert sorted(model.tags["log_models"] for model in models) == ["full", "reference"]
    assert record_all("full") == logged == record_all("reference")


@pytest.mark.long
def test_how_a_stage_is_logged_is_as_its_variant_says(finished: Path, tracking_uri: str, repository_root: Path) -> None:
    from mlflow import MlflowClient

    shutil.copy(repository_root / "params.yaml", finished)
    (finished / "params").mkdir()
    (finished / "params" / "v.yaml").write_text("tracking: {log_models: reference, traces: 2}\n")
    lock = {name: replace(LOCK[name], command_variant="v") for name in ("train@v", "converse@v")}
    lock["converse@w"] = replace(lock["converse@v"], name="converse@w", command_variant="gone")
    with MlflowRecorder(finished, tracking_uri) as recorder:
        for name in ("train@v", "converse@v"):
            recorder.record(records.read(finished, name, lock))
        client = MlflowClient(tracking_uri=tracking_uri)
        assert [model.tags["log_models"] for model in client.search_logged_models(["1"])] == ["reference"]
        assert len(client.search_traces(locations=["1"])) == 2 * 2
        recorder.record(records.read(finished, "converse@w", lock))
    assert len(client.search_traces(locations=["1"])) == 2 * 2 + 30 * 2, "without an overlay params.yaml speaks; each run keeps its own"
