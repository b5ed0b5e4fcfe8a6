"""Promotion that waits for a person: from a terminal it pauses in its own process and goes on with what is written into its form on a real
Prefect server; a run of a deployment is suspended, and goes on in another process (test_suspension.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import StateType
from prefect.flow_runs import pause_flow_run
from prefect_api import asked_with_key

from rlver.tasks.runtime import servers
from rlver.tasks.tracking.registry import ModelRegistry

PAUSED = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PAUSED])))


@pytest.fixture(autouse=True)
def asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect asks every 10 s whether the form was filled in."""
    monkeypatch.setattr("rlver.flows.promote.pause_flow_run", partial(pause_flow_run, poll_interval=0.2))


class Pending:
    """`promote(variant, approval=True)` at work beside the test, up to its pause."""

    def __init__(self, variant: str) -> None:
        self.ended: Any = None
        self._thread = threading.Thread(target=self._promote, args=(variant,), daemon=True)
        self._thread.start()
        self._run = self._paused()

    def _promote(self, variant: str) -> None:
        from rlver.flows.promote import promote

        self.ended = promote(variant, approval=True, return_state=True)

    def _paused(self) -> UUID:
        """The run that waits, once its form is there: the server is told of the pause first."""
        end = time.monotonic() + 120
        with get_client(sync_client=True) as client:
            while time.monotonic() < end:
                assert self.ended is None, f"did not wait: {self.ended}"
                for run in client.read_flow_runs(flow_run_filter=PAUSED):
                    if client.filter_flow_run_input(run.id, (keys := run.state.state_details.run_input_keyset)["description"], 1, set()):
                        self._keys = keys
                        return run.id
                time.sleep(0.1)
        pytest.fail("no run waits for an answer")

    def form(self) -> tuple[str, dict[str, Any]]:
        """What the person reads above the form, and its fields."""
        with get_client(sync_client=True) as client:
            text, schema = (json.loads(client.read_flow_run_input(self._run, self._keys[part])) for part in ("description", "schema"))
        return text, schema["properties"]

    def answer(self, **fields: Any) -> str:
        """Fill in the form; returns the refusal of the server, or nothing."""
        with get_client(sync_client=True) as client:
            return "" if (result := client.resume_flow_run(self._run, run_input=fields)).status.value == "ACCEPT" else str(result.details)

    def end(self) -> tuple[str, str]:
        """The name and the message of the state in which the run has ended."""
        self._thread.join(120)
        assert not self._thread.is_alive(), "the run did not go on"
        return self.ended.name, self.ended.message


@pytest.mark.long
def test_a_person_sees_the_gate_s_table_and_says_no(promotable: Path, prefect_server: None, tracking_uri: str) -> None:
    pending = Pending("a")
    text, fields = pending.form()
    assert text.startswith("a against the base, as there is no champion")
    for row in ("| gain over base | met | 41.5 → 45.5, paired +4.0", "| general ability | met |", "| hacking audit | met | clean |"):
        assert row in text
    assert set(fields) == {"promote", "reason"} and fields["promote"]["default"] is False
    assert ModelRegistry(tracking_uri).champion() is None
    assert "promote" in pending.answer(promote="perhaps"), "the server refuses what does not fit the form, and the run still waits"

    assert pending.answer(promote=False, reason="too many platitudes") == ""
    assert pending.end() == ("Declined", "a was not approved: too many platitudes")
    assert ModelRegistry(tracking_uri).champion() is None


@pytest.mark.long
def test_a_person_says_yes_and_the_version_knows_why(promotable: Path, prefect_server: None, tracking_uri: str) -> None:
    from mlflow import MlflowClient

    pending = Pending("a")
    assert pending.answer(promote=True, reason="read thirty dialogues") == ""
    assert pending.end() == ("Completed", "version 1 (a) is the champion")
    assert MlflowClient(tracking_uri=tracking_uri).get_model_version_by_alias("rlver-policy", "champion").tags["approved"] == (
        "read thirty dialogues"
    )


@pytest.mark.long
def test_an_approval_that_nobody_gives_promotes_nothing(
    promotable: Path, prefect_server: None, tracking_uri: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlver.flows.promote import promote

    monkeypatch.setattr("rlver.flows.promote.APPROVAL_HOURS", 0.0005)
    assert promote("a", approval=True, return_state=True).is_failed()
    assert "nobody filled in the form within 0.0005 hours" in "\n".join(said)
    assert ModelRegistry(tracking_uri).champion() is None


@pytest.mark.slow
def test_an_approval_is_void_if_another_has_become_champion_meanwhile(promotable: Path, prefect_server: None, tracking_uri: str) -> None:
    from rlver.flows.promote import promote

    pending = Pending("a")
    assert promote("b", return_state=True).is_completed()
    assert pending.answer(promote=True) == ""
    name, why = pending.end()
    assert name == "Failed" and "the champion has changed while this waited" in why
    assert str(ModelRegistry(tracking_uri).champion()) == "version 1 (b)"


@pytest.mark.slow
def test_an_approval_reaches_a_run_through_the_key_of_its_server(
    promotable: Path, tracking_uri: str, tmp_path: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    with servers.prefect(promotable, servers.free_port(15520)) as server, asked_with_key(promotable, server.url) as person:
        values = {**os.environ, "PYTHONPATH": str(repository_root), "PREFECT_API_URL": f"{server.url}/api"}
        command = (sys.executable, "-m", "rlver.flows.cli", "promote", "a", "--approval")
        with subprocess.Popen(
            command, cwd=promotable, env=values, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as promoting:
            paused = {"flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}}}
            end = time.monotonic() + 180
            while not (runs := person.post("/flow_runs/filter", json=paused).json()):
                assert promoting.poll() is None and time.monotonic() < end, promoting.communicate()[0]
                time.sleep(0.5)
            answer = {"run_input": {"promote": True, "reason": "read thirty dialogues"}}
            while person.post(f"/flow_runs/{runs[0]['id']}/resume", json=answer).json().get("status") != "ACCEPT":
                assert time.monotonic() < end, "the form was not there"
                time.sleep(0.5)
            said, _ = promoting.communicate(timeout=180)
    assert promoting.returncode == 0 and "version 1 (a) is the champion" in said, said
