"""Prefect's or MLflow's server restarted, or gone for good, in the middle of `rlver run`: the run goes on, or the next one does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prefect_api import asked_with_key
from whole_project import REPOSITORY

from rlver.tasks.runtime import servers

pytestmark = pytest.mark.slow
STAGES = ["personas", "train-a", "train-b", "report"]
SECOND_STAGE_S = 40  # Prefect's server needs about as long to start on a loaded machine


@pytest.fixture(autouse=True)
def slow_second_stage(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    (toy / "sleep-train-a").write_text(str(SECOND_STAGE_S))


@contextmanager
def started(root: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """`rlver run`, in the middle of its second stage."""
    command = (sys.executable, "-m", "rlver.flows.cli", "run")
    values = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", **environment}
    with subprocess.Popen(command, cwd=root, env=values, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            end = time.monotonic() + 300
            while "train-a" not in ran(root):
                assert process.poll() is None and time.monotonic() < end, process.communicate()[0]
                time.sleep(0.2)
            yield process
        finally:
            process.kill()


def ran(root: Path) -> list[str]:
    log = root / "ran.log"
    return log.read_text().split() if log.is_file() else []


def kill(server: servers.Server) -> None:
    os.killpg(server.process.pid, signal.SIGKILL)
    server.process.wait()


def test_a_prefect_server_that_is_restarted_is_waited_for(toy: Path, tracking_uri: str) -> None:
    port = servers.free_port()
    with servers.prefect(toy, port) as first, started(toy, PREFECT_API_URL=f"{first.url}/api") as process:
        kill(first)
        with servers.prefect(toy, port) as second:
            said, _ = process.communicate(timeout=600)
            with asked_with_key(toy, second.url) as api:
                runs = api.post("/flow_runs/filter", json={}).raise_for_status().json()
    assert process.returncode == 0 and "4 of 4 stages ran" in said and "Traceback" not in said, said
    assert ran(toy) == STAGES, "nothing was done twice"
    assert [run["state_type"] for run in runs] == ["COMPLETED"]


def test_without_the_prefect_server_that_it_began_with_a_run_ends_in_one_line_and_the_next_goes_on(toy: Path, tracking_uri: str) -> None:
    with servers.prefect(toy, servers.free_port()) as server, started(toy, PREFECT_API_URL=f"{server.url}/api") as process:
        kill(server)
        said, _ = process.communicate(timeout=900)
    lines = [line for line in said.splitlines() if line.startswith("error: ")]
    assert (
        process.returncode == 1 and len(lines) == 1 and "unset PREFECT_API_URL (also in .env), then run the same command again" in lines[0]
    ), said
    done = ran(toy)
    assert done == STAGES[: len(done)] and "train-a" in done, "the stage under way is done, and its result kept"
    rest = subprocess.run(
        (sys.executable, "-m", "rlver.flows.cli", "run"),
        cwd=toy,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran(toy) == STAGES and f"{len(STAGES) - len(done)} of 4 stages ran" in rest.stdout


def test_an_mlflow_server_that_is_restarted_holds_every_stage_once(toy: Path, tracking_uri: str) -> None:
    from mlflow import MlflowClient

    port = servers.free_port()
    with servers.mlflow(toy, tracking_uri, port) as first, started(toy, MLFLOW_TRACKING_URI=first.url) as process:
        kill(first)
        with servers.mlflow(toy, tracking_uri, port):
            said, _ = process.communicate(timeout=600)
    assert process.returncode == 0 and "4 of 4 stages ran" in said and "Traceback" not in said, said
    assert ran(toy) == STAGES
    client = MlflowClient(tracking_uri=tracking_uri)
    runs = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    names = Counter(str(run.info.run_name).partition(" ")[0] for run in runs)
    assert names == Counter(["pipeline", "personas", "train@a", "train@b", "report"]) and {run.info.status for run in runs} == {"FINISHED"}
    assert not list((toy / "spool").glob("*/*/end.json")), "nothing is left to send"
