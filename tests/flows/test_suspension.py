"""An approval for which a served run is suspended: nothing waits for it, and the answer counts after a restart of server and server's client."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect_api import asked_with_key
from served import rlver, wait_for

from rlver.tasks.runtime import servers
from rlver.tasks.tracking.registry import ModelRegistry

ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


class Served:
    """The deployments of a project, served beside the test by a server with `url`."""

    def __init__(self, client: httpx.Client, url: str) -> None:
        self.client, self.url = client, url

    def start(self, deployment: str, **parameters: Any) -> str:
        body = {"deployments": {"name": {"any_": [deployment]}}}
        (found,) = wait_for(lambda: self.client.post("/deployments/filter", json=body).json(), 120)
        run = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
        return str(self._post(f"/deployments/{found['id']}/create_flow_run", run)["id"])

    def state(self, run: str) -> dict[str, Any]:
        return dict(self.client.get(f"/flow_runs/{run}").json()["state"])

    def await_state(self, run: str, *types: str) -> dict[str, Any]:
        wait_for(lambda: self.state(run)["type"] in types, 180)
        return self.state(run)

    def suspended(self, run: str) -> dict[str, Any]:
        """Its state, once the form is there: the server is told of the suspension first."""
        state = self.await_state(run, "PAUSED", *ENDED)
        assert (state["type"], state["name"]) == ("PAUSED", "Suspended"), state["message"]
        key = state["state_details"]["run_input_keyset"]["description"]
        wait_for(lambda: self.client.get(f"/flow_runs/{run}/input/{key}").is_success, 60)
        return state

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What the server answers, once its SQLite is not busy (503)."""

        def answered() -> httpx.Response | None:
            answer = self.client.post(path, json=body)
            return None if answer.status_code == 503 else answer

        return dict(wait_for(answered, 30).raise_for_status().json())

    def answer(self, run: str, **fields: Any) -> None:
        answered = self._post(f"/flow_runs/{run}/resume", {"run_input": fields})
        assert answered["status"] == "ACCEPT", answered


@contextmanager
def served(root: Path, port: int) -> Iterator[Served]:
    with (
        servers.prefect(root, port) as server,
        asked_with_key(root, server.url) as client,
        rlver("serve-deployments", root=root, PREFECT_API_URL=f"{server.url}/api"),
    ):
        yield Served(client, server.url)


@pytest.fixture
def project(promotable: Path, tmp_path: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    shutil.copy(repository_root / "prefect.yaml", promotable)
    (promotable / "params" / "sweeps").mkdir()
    (promotable / "params" / "sweeps" / "learning-rate.yaml").write_text("params.yaml:train.steps: [2]\n")
    return promotable


@pytest.mark.slow
def test_other_runs_go_on_beside_an_approval_and_it_counts_after_a_restart_of_both(project: Path, tracking_uri: str) -> None:
    port = servers.free_port(15720)
    with served(project, port) as before:
        run = before.start("promote", variant="a")
        before.suspended(run)
        nightly = before.await_state(before.start("nightly"), *ENDED)
        assert nightly["type"] == "COMPLETED", "the process that serves is free for others"
        assert before.await_state(run, "PAUSED")
    with served(project, port) as after:
        assert after.state(run)["name"] == "Suspended"
        after.answer(run, promote=True, reason="read thirty dialogues")
        ended = after.await_state(run, *ENDED)
    assert (ended["type"], ended["message"]) == ("COMPLETED", "version 1 (a) is the champion")
    assert str(ModelRegistry(tracking_uri).champion()) == "version 1 (a)"


@pytest.mark.slow
def test_an_answer_counts_only_for_the_table_that_it_was_given_under(project: Path, tracking_uri: str) -> None:
    with served(project, servers.free_port(15740)) as there:
        run = there.start("promote", variant="b")
        first = there.suspended(run)
        promoted = there.start("promote", variant="a", approval=False)
        assert there.await_state(promoted, *ENDED)["type"] == "COMPLETED"
        there.answer(run, promote=True)
        wait_for(lambda: there.state(run)["name"] == "Suspended" and there.state(run)["id"] != first["id"], 180)
        second = there.suspended(run)
        assert second["state_details"]["pause_key"] != first["state_details"]["pause_key"]
        assert str(ModelRegistry(tracking_uri).champion()) == "version 1 (a)"
        there.answer(run, promote=False, reason="a is enough")
        ended = there.await_state(run, *ENDED)
    assert (ended["name"], ended["message"]) == ("Declined", "b was not approved: a is enough")
