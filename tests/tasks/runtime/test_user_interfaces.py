"""What `rlver ui` starts, and what it says of a server that is set."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from rlver.flows.cli import main
from rlver.tasks.runtime import environment, servers
from rlver.tasks.runtime.environment import Addresses
from rlver.tasks.tracking.recorder import MlflowRecorder


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[servers.PlannedServer]:
    """The servers that would be started."""
    planned: list[servers.PlannedServer] = []

    @contextmanager
    def serving(one: servers.PlannedServer) -> Iterator[servers.Server]:
        planned.append(one)
        yield servers.Server(one.name, f"http://{servers.HOST}:{one.port}", one.log, cast(Any, None))

    monkeypatch.setattr(servers, "serving", serving)
    return planned


def line_about_mlflow(root: Path, uri: str) -> str:
    said: list[str] = []
    with servers.user_interfaces(root, Addresses(uri, None, root / ".prefect"), None, servers.free_port(), said.append):
        return next(line for line in said if line.startswith("MLflow"))


@pytest.mark.parametrize("name", servers.NAMES)
def test_an_address_of_this_machine_that_does_not_answer_is_served(
    tmp_path: Path, started: list[servers.PlannedServer], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    port = servers.free_port()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://{name}:{port}")
    assert f"http://127.0.0.1:{port} (serves this project's mlflow.db" in line_about_mlflow(tmp_path, f"http://{name}:{port}")
    mlflow, _ = started
    store = f"sqlite:///{tmp_path}/mlflow.db"
    assert (mlflow.name, mlflow.port, mlflow.environment["MLFLOW_BACKEND_STORE_URI"]) == ("mlflow", port, store)
    assert mlflow.environment["MLFLOW_TRACKING_URI"] == store, "the server does not ask itself"


def test_a_server_that_answers_is_left_alone(tmp_path: Path, started: list[servers.PlannedServer], monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"http://127.0.0.1:{servers.free_port()}"
    monkeypatch.setattr(servers, "answers", lambda url: url == f"{uri}/health")
    for address in (uri, f"{uri}/"):
        assert line_about_mlflow(tmp_path, address) == f"MLflow   {address} (runs elsewhere)"
    assert {one.name for one in started} == {"prefect"}


@pytest.mark.parametrize("uri", ["http://tracker.invalid:5000", "https://127.0.0.1:{port}", "http://127.0.0.1:{taken}"])
def test_what_cannot_be_served_here_is_said_not_to_answer(tmp_path: Path, started: list[servers.PlannedServer], uri: str) -> None:
    with socket.socket() as other:
        other.bind((servers.HOST, 0))
        address = uri.format(port=servers.free_port(), taken=other.getsockname()[1])
        assert line_about_mlflow(tmp_path, address) == f"MLflow   {address} (does not answer at /health)"
    assert {one.name for one in started} == {"prefect"}


def test_no_database_takes_the_place_of_a_tracker_that_runs_wait_for(
    tmp_path: Path, started: list[servers.PlannedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A team's tracker at the other end of a tunnel that is down. Where this project has a database, that is what the address is of."""
    uri = f"http://127.0.0.1:{servers.free_port()}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.setattr(servers, "wait", lambda running: None)

    def names(*options: str) -> set[str]:
        started.clear()
        assert main(["ui", *options]) == 0
        return {one.name for one in started}

    assert names() == {"mlflow", "prefect"}
    entry = MlflowRecorder(tmp_path, uri).spool.begin("train@v", None, {})
    assert names() == {"prefect"}
    assert names("--mlflow-port", "5080") == {"mlflow", "prefect"}
    (tmp_path / "mlflow.db").touch()
    assert names() == {"mlflow", "prefect"}
    entry.close("FINISHED")


def test_prefect_is_started_where_it_is_looked_for(tmp_path: Path, started: list[servers.PlannedServer]) -> None:
    port = servers.free_port()
    where = Addresses(f"sqlite:///{tmp_path}/mlflow.db", f"http://localhost:{port}/api", tmp_path / ".prefect")
    with servers.user_interfaces(tmp_path, where, None, None, lambda _: None):
        assert {one.name: one.port for one in started}["prefect"] == port


def test_a_port_that_is_given_wins_over_that_of_the_address(tmp_path: Path, started: list[servers.PlannedServer]) -> None:
    tracker, api, mlflow, prefect = (servers.free_port() for _ in range(4))
    where = Addresses(f"http://127.0.0.1:{tracker}", f"http://localhost:{api}/api", tmp_path / ".prefect")
    with servers.user_interfaces(tmp_path, where, mlflow, prefect, lambda _: None):
        assert [one.port for one in started] == [mlflow, prefect]


def test_prefect_takes_the_key_that_its_clients_send(
    tmp_path: Path, started: list[servers.PlannedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in .env comes before that in the file of the port, for the address beside it only."""
    port, said = servers.free_port(), list[str]()
    for name in ("PREFECT_API_AUTH_STRING", "PREFECT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{port}/api")
    monkeypatch.setattr(servers, "answers", lambda url: False)

    def key(at: int) -> str:
        where = environment.prepare(tmp_path)
        with servers.user_interfaces(tmp_path, where, servers.free_port(), at, said.append):
            return started[-1].environment["PREFECT_SERVER_API_AUTH_STRING"]

    kept = key(port)
    assert (tmp_path / ".prefect" / f"{port}.key").read_text().strip() == kept == key(port)
    monkeypatch.delenv("PREFECT_API_AUTH_STRING")
    (tmp_path / ".env").write_text("PREFECT_API_AUTH_STRING=rlver:of-the-user\n")
    assert key(port) == "rlver:of-the-user" and said[-1].endswith("password: your PREFECT_API_AUTH_STRING")
    other = servers.free_port()
    assert key(other) not in (kept, "rlver:of-the-user") and said[-1].endswith(f"{other}.key")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_server_ends_when_who_started_it_is_killed(tmp_path: Path) -> None:
    port = servers.free_port()
    script = (
        "import pathlib, sys; from rlver.tasks.runtime import servers\n"
        f"command = ('-m', 'http.server', '{port}', '--bind', servers.HOST)\n"
        f"with servers.serving(servers._ours('web', command, {{}}, pathlib.Path(sys.argv[1]), {port}, '/')): print('up', flush=True); input()\n"
    )
    with subprocess.Popen((sys.executable, "-c", script, str(tmp_path)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == "up\n"
        started = psutil.Process(owner.pid).children()
        owner.kill()
    _, alive = psutil.wait_procs(started, timeout=10)
    for one in alive:
        one.kill()
    assert len(started) == 1 and not alive
