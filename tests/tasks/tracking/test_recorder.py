"""MLflow filled from files: what is in a run, what is stored once, and what happens when the tracker is away."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tracked_project import LOCK, MODEL, SCORES, TALKS, make, read, write

from rlver.tasks.graph.lock import md5_of
from rlver.tasks.runtime.environment import EXPERIMENT
from rlver.tasks.tracking import records
from rlver.tasks.tracking.filling import fill
from rlver.tasks.tracking.recorder import MlflowRecorder, log_pipeline, log_report
from rlver.tasks.tracking.store import TrackingUnavailable, open_store

if TYPE_CHECKING:
    from mlflow.entities import Run


def record_all(root: Path, uri: str) -> dict[str, str]:
    with MlflowRecorder(root, uri, "full", {"prefect_flow_run": "f1"}, traces=3) as recorder:
        return log_pipeline(recorder, read(root))


def parents(uri: str) -> list[Run]:
    """The runs of whole pipelines, the newest first."""
    from mlflow import MlflowClient

    return [run for run in MlflowClient(tracking_uri=uri).search_runs(["1"]) if run.info.run_name.startswith("pipeline")]


@dataclass(frozen=True)
class Recorded:
    """A project whose every stage is in MLflow, and the runs that hold them."""

    root: Path
    uri: str
    runs: dict[str, str]


@pytest.fixture(scope="module")
def recorded(_tracking_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """For those who add nothing to it."""
    folder = tmp_path_factory.mktemp("recorded")
    root, uri = make(folder / "project"), f"sqlite:///{shutil.copy(_tracking_template, folder / 'mlflow.db')}"
    return Recorded(root, uri, record_all(root, uri))


def test_a_record_holds_effective_parameters_metrics_and_curves(finished: Path) -> None:
    by_name = {record.name: record for record in read(finished)}
    assert by_name["train@v"].parameters == {"seed": "7", "train.learning_rate": "2e-05", "train.steps": "3"}, "the overlay wins"
    assert by_name["train@v"].variant == "v" and by_name["report"].variant is None
    assert by_name["train@v"].curves[:2] == (("evaluation/emotion_mean", 20, 30.5), ("evaluation/emotion_mean", 40, 61.0))
    assert by_name["score@v"].metrics == {
        "n": 100.0,
        "emotion_mean": 50.5,
        "emotion_ci95/lo": 40.0,
        "emotion_ci95/hi": 61.0,
        "success_rate": 0.2,
        "by_need/guidance/n": 12.0,
    }
    assert [file.name for file in by_name["score@v"].models_read] == ["models/v"], "the model behind the transcripts"


@pytest.mark.long
def test_a_pipeline_run_is_a_parent_with_one_child_per_stage(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", recorded.uri)
    runs = recorded.runs
    assert list(runs) == list(LOCK)
    client = MlflowClient(tracking_uri=recorded.uri)

    (parent_run,) = parents(recorded.uri)
    parent = parent_run.info.run_id
    assert parent_run.info.status == "FINISHED"
    assert parent_run.data.metrics == {"v/emotion_mean": 50.5, "v/success_rate": 0.2}
    for name, run_id in runs.items():
        run = client.get_run(run_id)
        assert (run.info.status, run.data.tags["stage"], run.data.tags["mlflow.parentRunId"]) == ("FINISHED", name, parent)
        assert run.data.tags["prefect_flow_run"] == "f1"

    train = client.get_run(runs["train@v"])
    assert train.data.params["train.learning_rate"] == "2e-05"
    assert train.data.tags["md5/models/v"] == MODEL and train.data.tags["variant"] == "v"
    losses = client.get_metric_history(runs["train@v"], "train/loss")
    assert [(losses[0].step, losses[0].value), (losses[-1].step, losses[-1].value), len(losses)] == [(1, 0.5), (1501, 750.5), 1501]
    assert [given.dataset.name for given in train.inputs.dataset_inputs] == ["personas train"]
    assert train.data.tags["seed"] == "7" and train.data.tags["stage_group"] == "train"
    assert {file.path for file in client.list_artifacts(runs["train@v"], "figures")} >= {"figures/learning-curve.png"}
    (tests,) = client.search_datasets(experiment_ids=[train.info.experiment_id])
    assert (
        tests.name == f"personas test {md5_of(recorded.root / 'data/personas/test.jsonl')[:8]}"
        and tests.name == client.get_run(runs["personas"]).data.tags["evaluation_dataset/test"]
    )

    score = client.get_run(runs["score@v"])
    assert score.data.metrics["emotion_mean"] == 50.5
    assert [file.path for file in client.list_artifacts(runs["report"], "reports")] == ["reports/index.html"]
    table = client.download_artifacts(runs["converse@v"], "transcripts/sample.json")
    rows = json.loads(Path(table).read_text())
    assert rows["columns"] == ["dialogue_id", "turn", "user", "think", "assistant", "emotion", "reason"]
    assert rows["data"][1] == ["d0", 2, "hi", "be kind", "hello", 50, "seen"] and len(rows["data"]) == 20 * 2


def test_the_score_of_a_warm_up_does_not_take_the_place_of_the_trained_models(finished: Path, tracking_uri: str) -> None:
    trained = records.read(finished, "score@v", LOCK)
    warm = trained.model_copy(update={"name": "bigger/dvc.yaml:score-warmup@v", "metrics": {"emotion_mean": 30.0}})
    recorder = MlflowRecorder(finished, tracking_uri, "full")
    for record in (trained.model_copy(update={"name": "bigger/dvc.yaml:score@v"}), warm):
        recorder.finish(recorder.begin(record.name), record)
    assert recorder._pipeline is not None
    seen = {reading.name: reading.value for reading, _ in recorder._pipeline.readings()}
    assert seen == {"v/emotion_mean": 50.5, "v/success_rate": 0.2, "v-warmup/emotion_mean": 30.0}


@pytest.mark.long
def test_the_model_is_stored_once_and_carries_the_scores(finished: Path, tracking_uri: str) -> None:
    from mlflow import MlflowClient

    with MlflowRecorder(finished, tracking_uri, "full") as recorder:
        runs = log_pipeline(recorder, [records.read(finished, name, LOCK) for name in ("train@v", "score@v")])
    client = MlflowClient(tracking_uri=tracking_uri)
    with MlflowRecorder(finished, tracking_uri, "full") as recorder:
        again = recorder.record(records.read(finished, "train@v", LOCK))
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    (model,) = client.search_logged_models([experiment.experiment_id])
    assert model.tags["md5"] == MODEL and model.name == "v"
    stored = finished / "mlartifacts" / "models" / model.model_id / "artifacts"
    assert sorted(path.name for path in (stored / "artifacts" / "policy").iterdir()) == ["config.json", "model.safetensors"]
    assert (stored / "MLmodel").is_file() and not list(stored.rglob("*.pkl")), "code beside the weights, nothing pickled"
    assert [given.model_id for given in client.get_run(again).outputs.model_outputs] == [model.model_id]
    assert ("emotion_mean", 50.5, runs["score@v"]) in [(one.key, one.value, one.run_id) for one in model.metrics or ()]


@pytest.mark.long
def test_a_referenced_model_is_named_but_not_copied(finished: Path, tracking_uri: str) -> None:
    from mlflow import MlflowClient

    with MlflowRecorder(finished, tracking_uri, "reference") as recorder:
        recorder.record(records.read(finished, "train@v", LOCK))
    (model,) = MlflowClient(tracking_uri=tracking_uri).search_logged_models(["1"])
    assert (model.name, model.tags["md5"]) == ("v", MODEL)
    assert not (finished / "mlartifacts" / "models").exists()


def test_a_variant_with_a_dot_in_its_name_has_a_model_too(finished: Path, tracking_uri: str) -> None:
    """MLflow takes no dot in the name of a model; who is refused would wait in the spool for ever, and be in the way of others."""
    from mlflow import MlflowClient

    (finished / "models/v").rename(finished / "models/q2.5-0.5b")
    train = replace(LOCK["train@v"], name="train@q2.5-0.5b", outputs={"models/q2.5-0.5b": MODEL, "metrics/v/sentient.json": SCORES})
    with MlflowRecorder(finished, tracking_uri, "reference") as recorder:
        run = recorder.record(records.read(finished, train.name, {train.name: train}))
        assert [entry.head.name for entry in recorder.spool.entries() if entry.head.name == train.name] == []
    (model,) = MlflowClient(tracking_uri=tracking_uri).search_logged_models(["1"])
    assert (model.name, model.tags["dvc_path"]) == ("q2_5-0_5b", "models/q2.5-0.5b")
    assert ("emotion_mean", 50.5, run) in [(one.key, one.value, one.run_id) for one in model.metrics or ()]


def test_results_that_a_run_holds_are_not_logged_again(recorded: Recorded) -> None:
    again = record_all(recorded.root, recorded.uri)
    assert again == recorded.runs and len(parents(recorded.uri)) == 1, "no run was opened"


def test_a_failed_or_interrupted_pipeline_ends_its_parent_run_so(finished: Path, tracking_uri: str) -> None:
    def parent_after(error: type[BaseException] | None, failed: bool = False) -> str:
        recorder = MlflowRecorder(finished, tracking_uri, "reference")
        with contextlib.suppress(KeyboardInterrupt, RuntimeError), recorder:
            recorder.record(records.read(finished, "report", LOCK))
            assert parents(tracking_uri)[0].info.status == "RUNNING"
            if failed:
                recorder.failed = True
            if error:
                raise error
        return str(parents(tracking_uri)[0].info.status)

    assert parent_after(None) == "FINISHED"
    assert parent_after(None, failed=True) == "FAILED"
    assert parent_after(KeyboardInterrupt) == "KILLED"
    assert parent_after(RuntimeError) == "FAILED"


@pytest.mark.long
def test_what_was_sent_halfway_is_finished_by_the_next_and_nothing_is_there_twice(finished: Path, tracking_uri: str) -> None:
    """The second half of a run is refused, as by a tracker that dies; what is asked again has the same ids and times."""
    from mlflow import MlflowClient

    class Dies(MlflowRecorder):
        def send_what_can_be(self) -> list[Exception]:
            entry = self.spool.entries()[-1]
            store = self._store
            run = self._run(store, entry)
            for record in read(finished):
                if record.name == entry.head.name:
                    fill(store, run, record, "full", 3)  # all was sent, but nobody heard of it
            raise TrackingUnavailable("MLflow: died")

    for name in ("train@v", "converse@v"):
        with Dies(finished, tracking_uri, "full") as recorder, contextlib.suppress(TrackingUnavailable):
            recorder.record(records.read(finished, name, LOCK))
    with MlflowRecorder(finished, tracking_uri, "full", traces=3) as recorder:
        recorder.send()
        assert not recorder.spool.entries()
    client = MlflowClient(tracking_uri=tracking_uri)
    runs = {run.info.run_name.partition(" ")[0]: run for run in client.search_runs(["1"])}
    assert {name: run.info.status for name, run in runs.items()} == {
        "pipeline": "FINISHED",
        "train@v": "FINISHED",
        "converse@v": "FINISHED",
    }
    losses = client.get_metric_history(runs["train@v"].info.run_id, "train/loss")
    assert [point.step for point in losses] == list(range(1, 1502))
    assert len(runs["train@v"].outputs.model_outputs) == 1 and len(client.search_logged_models(["1"])) == 1
    assert len(client.search_traces(locations=["1"])) == 3 * 2
    table = json.loads(Path(client.download_artifacts(runs["converse@v"].info.run_id, "transcripts/sample.json")).read_text())
    assert len(table["data"]) == 20 * 2


def test_files_that_a_later_run_has_replaced_are_left_out_by_name(finished: Path, tracking_uri: str) -> None:
    from mlflow import MlflowClient

    with MlflowRecorder(finished, tracking_uri, "reference", traces=3) as recorder:
        entry = recorder.begin("converse@v")
        recorder.finish(entry, records.read(finished, "converse@v", LOCK))
        write(finished / "transcripts/v.jsonl", "what another run said\n")
        recorder.send()
        run = recorder.runs[entry.identity]
    client = MlflowClient(tracking_uri=tracking_uri)
    assert client.get_run(run).data.tags["replaced_since"] == "transcripts/v.jsonl"
    assert client.get_run(run).data.tags["md5/transcripts/v.jsonl"] == TALKS and not client.search_traces(locations=["1"])


def test_a_tracker_that_is_away_is_one_line(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    recorder = MlflowRecorder(finished, "http://127.0.0.1:9", "full")
    with pytest.raises(TrackingUnavailable) as error:
        recorder.holder(records.read(finished, "report", LOCK))
    assert str(error.value).startswith("MLflow: ") and "\n" not in str(error.value)
    (tmp_path / "broken.db").write_text("this is no database, " * 100)
    with pytest.raises(TrackingUnavailable, match="not a database"):
        MlflowRecorder(finished, f"sqlite:///{tmp_path / 'broken.db'}", "full").holder(records.read(finished, "report", LOCK))


def test_the_commit_and_uncommitted_changes_are_known(toy: Path) -> None:
    revision = records.revision(toy)
    assert revision is not None and len(revision.commit) == 40 and not revision.dirty
    for name in ("dvc.lock", "metrics/v.json"):
        write(toy / name, "{}")
    subprocess.run(("git", "add", "-A"), cwd=toy, check=True)
    assert records.revision(toy) == (revision.commit, False), "what a run writes itself is no change of its source"
    write(toy / "notes.txt", "of no matter")
    assert records.revision(toy) == (revision.commit, False)
    write(toy / "components" / "users" / "mine.py", "KIND = 1\n")
    assert records.revision(toy) == (revision.commit, True), "a kind of one's own is found by its place, in git or not"
    shutil.rmtree(toy / "components")
    (toy / "params.yaml").write_text("seed: 9\n")
    assert records.revision(toy) == (revision.commit, True)


def test_outside_git_there_is_no_revision(tmp_path: Path) -> None:
    assert records.revision(tmp_path) is None


def test_a_parameter_whose_name_mlflow_refuses_is_cleaned(finished: Path, tracking_uri: str) -> None:
    from mlflow import MlflowClient

    prices = {"endpoint": {"prices": {"claude-sonnet-4@20250514": {"million_in": 3.0}}}}
    lock = {"score@v": replace(LOCK["score@v"], parameters={"params.yaml": prices})}
    with MlflowRecorder(finished, tracking_uri, "reference") as recorder:
        run = recorder.record(records.read(finished, "score@v", lock))
    found = MlflowClient(tracking_uri=tracking_uri).get_run(run)
    assert (found.info.status, found.data.params) == ("FINISHED", {"endpoint.prices.claude-sonnet-4_20250514.million_in": "3.0"})


def test_an_upload_of_a_model_that_breaks_off_goes_on_in_the_same_model(
    finished: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient
    from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_TIMEOUT

    from rlver.tasks.tracking.models import UPLOAD_S

    sends, broken = MlflowClient.log_model_artifacts, [True, True]
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")

    def breaks(self: MlflowClient, *arguments: str) -> None:
        assert MLFLOW_HTTP_REQUEST_TIMEOUT.get() == UPLOAD_S
        sends(self, *arguments)
        if broken:
            broken.pop()
            raise OSError("No space left on device")

    monkeypatch.setattr(MlflowClient, "log_model_artifacts", breaks)
    with MlflowRecorder(finished, tracking_uri, "full") as recorder:
        record = records.read(finished, "train@v", LOCK).model_copy(update={"metrics": {"seconds": 3.0}})
        recorder.finish(entry := recorder.begin("train@v"), record)
        for _ in range(2):
            with pytest.raises(TrackingUnavailable, match="No space left"):
                recorder.send()
            begun = MlflowClient(tracking_uri=tracking_uri).get_run(recorder.runs[entry.identity])
            assert begun.data.metrics["seconds"] == 3, "all but the model is there"
            assert MLFLOW_HTTP_REQUEST_TIMEOUT.get() == 20
        recorder.send()
        assert [entry.head.parent for entry in recorder.spool.entries()] == [None], "the pipeline's own"
    (model,) = MlflowClient(tracking_uri=tracking_uri).search_logged_models(["1"])
    assert str(model.status) == "READY" and len(list(finished.glob("mlartifacts/**/*.safetensors"))) == 1
    assert [(one.key, one.value) for one in model.metrics] == [("seconds", 3)]
    assert len(MlflowClient(tracking_uri=tracking_uri).get_metric_history(begun.info.run_id, "seconds")) == 1


def test_a_seed_of_the_command_line_is_the_run_s_and_its_model_s(finished: Path, tracking_uri: str) -> None:
    """As in the paper run, whose stages have no parameter `seed`."""
    from mlflow import MlflowClient

    lock = dict(LOCK)
    values = {"policy": {"temperature": 1.0, "top_p": 1.0, "max_reply_tokens": 9, "max_context_tokens": 99, "thinking": True}}
    lock["train@v"] = replace(LOCK["train@v"], parameters={"params.yaml": values}, seed=8)
    with MlflowRecorder(finished, tracking_uri, "full") as recorder:
        run = recorder.record(records.read(finished, "train@v", lock))
    assert MlflowClient(tracking_uri=tracking_uri).get_run(run).data.tags["seed"] == "8"


def test_a_report_that_breaks_off_has_failed_and_is_logged_again(
    tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    def breaks(*_: object, **__: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_batch", breaks)
        with pytest.raises(TrackingUnavailable, match="no space left"):
            log_report(tmp_path, tracking_uri, "blind", "d1", {}, {"k": 1.0}, [])
    log_report(tmp_path, tracking_uri, "blind", "d1", {}, {"k": 1.0}, [])
    runs = open_store(tmp_path, tracking_uri).runs("tags.stage = 'blind'")
    assert [run.info.status for run in runs] == ["FINISHED", "FAILED"]
