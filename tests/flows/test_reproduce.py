"""The flow over a real small DVC project: states, retries, failures, artifacts and runs."""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from toy_runs import run

pytestmark = pytest.mark.usefixtures("prefect_server")


def ran(root: Path) -> list[str]:
    log = root / "ran.log"
    return log.read_text().split() if log.exists() else []


EDGES = {"personas": set(), "train@a": {"personas"}, "train@b": {"personas"}, "report": {"train@a", "train@b"}}


def tasks_of(state: Any) -> dict[str, Any]:
    """The task runs of a flow run, by name, as Prefect's server knows them."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter

    of_run = FlowRunFilter(id={"any_": [state.state_details.flow_run_id]})
    with get_client(sync_client=True) as client:
        return {task.name: task for task in client.read_task_runs(flow_run_filter=of_run)}


def edges_of(tasks: dict[str, Any]) -> dict[str, set[str]]:
    """The names of what each waits for."""
    names = {task.id: name for name, task in tasks.items()}
    return {name: {names[source.id] for source in task.task_inputs.get("wait_for", ())} for name, task in tasks.items()}


@pytest.mark.long
def test_what_changed_runs_and_the_rest_is_cached(toy: Path, tracking_uri: str, said: list[str]) -> None:
    from mlflow import MlflowClient

    first = run()
    assert first.is_completed() and first.message == "4 of 4 stages ran: personas, train@a, train@b, report"
    assert ran(toy) == ["personas", "train-a", "train-b", "report"]
    assert "train@a: train-a says hello" in said

    second = run()
    assert second.is_completed() and second.message == "0 of 4 stages ran, the others are up to date"
    assert len(ran(toy)) == 4
    assert sum("Finished in state Cached" in line for line in said) == 4
    client = MlflowClient(tracking_uri=tracking_uri)
    experiment = client.get_experiment_by_name("rlver")
    assert experiment is not None
    runs = {one.info.run_name: one.info.run_id for one in client.search_runs([experiment.experiment_id])}
    assert len(runs) == 5 and {"personas", "train@a", "train@b", "report"} < set(runs), "the second run made none"
    assert f"report: up to date; its result is in MLflow run {runs['report']}" in "\n".join(said)

    (toy / "params" / "a.yaml").write_text("train:\n  steps: 4\n")
    third = run()
    assert third.message == "2 of 4 stages ran: train@a, report"
    assert edges_of(tasks_of(third)) == EDGES
    assert any(line.startswith("train@a: deps params/a.yaml: ") for line in said)


@pytest.mark.long
@pytest.mark.parametrize("experiment", [pytest.param(None, marks=pytest.mark.slow), "another"])
def test_what_a_stage_logs_with_mlflow_itself_lands_in_its_own_run(
    toy: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch, experiment: str | None
) -> None:
    from mlflow import MlflowClient

    if experiment:
        monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", experiment)
    with (toy / "stage.sh").open("a") as script:
        script.write('[ "$1" = train-a ] && python -c "import mlflow; mlflow.log_metric(\'of_mine\', 42)" || true\n')
    (toy / "data").mkdir()
    (toy / "data" / "personas.txt").write_text("by hand\n")
    assert run(only=["train@a"]).is_completed()
    client = MlflowClient(tracking_uri=tracking_uri)
    found = client.get_experiment_by_name(experiment or "rlver")
    assert found is not None
    runs = client.search_runs([found.experiment_id])
    assert {one.info.run_name: one.data.metrics.get("of_mine") for one in runs if "of_mine" in one.data.metrics} == {"train@a": 42.0}
    assert len(runs) == 2 and {one.info.status for one in runs} == {"FINISHED"}


@pytest.mark.long
def test_a_failing_stage_ends_the_run_in_one_line(toy: Path, tracking_uri: str, said: list[str]) -> None:
    from mlflow import MlflowClient

    (toy / "fail-train-a").write_text("1")
    state = run()
    assert state.is_failed() and state.message == "train@a: bad luck"
    assert ran(toy) == ["personas", "train-a"], "tried once, and nothing after it"
    assert "Traceback" not in "\n".join(said)
    runs = MlflowClient(tracking_uri=tracking_uri).search_runs(["1"])
    assert {one.info.run_name.partition(" ")[0]: one.info.status for one in runs} == {
        "pipeline": "FAILED",
        "personas": "FINISHED",
        "train@a": "FAILED",
    }
    (failed,) = (one for one in runs if one.info.run_name == "train@a")
    assert failed.data.tags["failure"] == "train@a: bad luck"


@pytest.mark.long
def test_what_the_world_broke_is_tried_again(toy: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlver.flows import walk

    monkeypatch.setattr(walk, "bring_up_to_date", walk.bring_up_to_date.with_options(retry_delay_seconds=0))
    (toy / "fail-personas").write_text("75")
    (toy / "once-personas").touch()
    assert run(only=["personas"]).is_completed()
    assert ran(toy) == ["personas", "personas"]


@pytest.mark.long
def test_only_the_selected_stage_runs_and_stale_inputs_are_mentioned(toy: Path, tracking_uri: str, said: list[str]) -> None:
    (toy / "data").mkdir()
    (toy / "data" / "personas.txt").write_text("by hand\n")
    assert run(only=["train@b"]).message == "1 of 1 stages ran: train@b"
    assert ran(toy) == ["train-b"]
    assert "flow: not selected, but out of date: personas" in said
    assert run(only=["nope"]).message.startswith("unknown stage nope; dvc.yaml has personas, report, train")


@pytest.mark.long
def test_results_and_report_are_artifacts(toy: Path, tracking_uri: str) -> None:
    from prefect.artifacts import Artifact

    scores = {"n": 100, "emotion_mean": 13.3, "emotion_ci95": [11, 15.5], "success_rate": 0.02, "failure_rate": 0.76}
    (toy / "metrics" / "base").mkdir(parents=True)
    (toy / "metrics" / "base" / "sentient.json").write_text(json.dumps(scores))
    reports = toy / "reports"
    (reports / "plots").mkdir(parents=True)
    (reports / "index.html").write_text("<p>")
    (reports / "results.md").write_text("| base | all of it |\n")
    (reports / "plots" / "learning-curve.png").write_bytes(b"a picture")
    assert run(only=["personas"]).is_completed()
    table, report = Artifact.get("results"), Artifact.get("report")
    assert table is not None and "| base | 13.3 [11.0, 15.5] |" in str(table.data)
    assert report is not None and report.type == "markdown" and "reports/index.html" in str(report.description)
    assert report.data == f"![learning curve](data:image/png;base64,{b64encode(b'a picture').decode()})\n\n| base | all of it |\n"


@pytest.mark.long
def test_the_graph_of_a_run_has_edges_and_its_stages_have_tags(toy: Path, tracking_uri: str) -> None:
    tasks = tasks_of(run(jobs=2))
    assert edges_of(tasks) == EDGES and set(tasks["train@a"].tags) == {"train", "a"}


def test_a_tracker_that_is_away_is_a_warning_said_once(
    toy: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from rlver.tasks.tracking.provenance import Provenance

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    (toy / "dvc.lock").write_text("schema: '2.0'\nstages:\n  a: {cmd: x}\n  b: {cmd: x}\n")
    with Provenance(toy, "http://127.0.0.1:9", None, logging.getLogger("flow")) as provenance:
        provenance.of_run("a")
        assert provenance.of_cached("b") == ""
    (line,) = caplog.messages
    assert "MLflow: " in line and line.endswith("; what is missing is in spool/, and the next run or `rlver mlflow sync` sends it")
    assert len(list((toy / "spool").glob("*/*/end.json"))) == 2, "stage and pipeline wait there"


def test_landed_personas_that_are_not_imported_stop_the_run(toy: Path) -> None:
    state = run(personas_md5="0" * 32)
    assert state.is_failed() and "set personas.imported_train in params.yaml" in state.message
    assert ran(toy) == []
