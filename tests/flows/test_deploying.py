"""`prefect deploy` and `rlver serve-deployments` give a real server the same deployments and automations, and a failure is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect_api import asked_with_key
from served import rlver, wait_for

from rlver.components.domain.files import read_yaml
from rlver.tasks.runtime import environment, servers

HEARTBEAT = "PREFECT_FLOWS_HEARTBEAT_FREQUENCY"
SAME = ("tags", "parameter_openapi_schema", "entrypoint", "description", "parameters", "concurrency_limit", "enforce_parameter_schema")


@contextmanager
def listening() -> Iterator[tuple[str, list[Any]]]:
    """The address of a web hook, and what was sent to it."""
    heard: list[Any] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer((servers.HOST, 0), Hook) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://{servers.HOST}:{server.server_port}", heard
        server.shutdown()


SAVE_BLOCK = """
import sys
from prefect.blocks.notifications import CustomWebhookNotificationBlock as Hook
Hook(name="rlver", url=sys.argv[1], method="POST", json_data={"subject": "{{subject}}", "body": "{{body}}"}).save("rlver-failures")
"""


def described(client: httpx.Client) -> dict[str, Any]:
    """What the server has: deployments by name, with their schedules, and the names and triggers of the automations."""
    found = client.post("/deployments/filter", json={}).json()
    return {
        "deployments": {
            one["name"]: {**{key: one[key] for key in SAME}, "schedules": [plan["schedule"] for plan in one["schedules"]]} for one in found
        },
        "automations": sorted(
            (one["name"], one["trigger"].get("match_related") or {}, one["trigger"]["posture"])
            for one in client.post("/automations/filter", json={}).json()
        ),
    }


def on_the_pool(repository_root: Path) -> dict[str, Any]:
    """What a work pool is told of each deployment, by its name."""
    return {one["name"]: one["work_pool"]["job_variables"] for one in read_yaml(repository_root / "prefect.yaml")["deployments"]}


def test_runs_on_a_work_pool_are_heard_of_as_often_as_the_automations_expect(repository_root: Path) -> None:
    found = on_the_pool(repository_root)
    assert found == {name: {"env": {HEARTBEAT: environment.QUIET[HEARTBEAT]}} for name in found}


@pytest.mark.slow
def test_both_ways_give_the_same_and_a_failure_is_told(
    toy: Path, tracking_uri: str, tmp_path: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    (toy / "prefect.yaml").write_bytes((repository_root / "prefect.yaml").read_bytes())
    (toy / "params" / "sweeps").mkdir()
    (toy / "params" / "sweeps" / "learning-rate.yaml").write_text("params.yaml:train.steps: [2]\n")
    (toy / "fail-personas").write_text("1")
    with (
        listening() as (hook, heard),
        servers.prefect(toy, servers.free_port(15620)) as server,
        asked_with_key(toy, server.url) as client,
    ):
        key = environment.find_key(environment.addresses(toy).prefect_home, server.url)
        values = {
            **os.environ,
            "PYTHONPATH": str(repository_root),
            "PREFECT_API_URL": f"{server.url}/api",
            "PREFECT_API_AUTH_STRING": str(key),
        }

        def do(*arguments: str) -> None:
            done = subprocess.run((sys.executable, *arguments), cwd=toy, env=values, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr

        do("-c", SAVE_BLOCK, hook)
        do("-m", "prefect", "work-pool", "create", "--type", "process", "rlver")
        do("-m", "prefect", "--no-prompt", "deploy", "--all")
        deployed = described(client)
        on_the_server = {one["name"]: one["job_variables"] for one in client.post("/deployments/filter", json={}).json()}
        assert on_the_server == on_the_pool(repository_root)
        assert deployed["deployments"]["promote"]["parameter_openapi_schema"]["properties"]["variant"]["enum"] == ["a", "b"]
        names = [name for name, *_ in deployed["automations"]]
        assert len(names) == 3, names

        with rlver("serve-deployments", root=toy, PREFECT_API_URL=f"{server.url}/api"):
            wait_for(lambda: all(one["status"] == "READY" for one in client.post("/deployments/filter", json={}).json()), 120)
            assert described(client) == deployed

            (nightly,) = client.post("/deployments/filter", json={"deployments": {"name": {"any_": ["nightly"]}}}).json()
            run = client.post(f"/deployments/{nightly['id']}/create_flow_run", json={"state": {"type": "SCHEDULED"}}).json()
            assert run["tags"] == ["rlver"]
            wait_for(lambda: heard, 120)
    assert heard[0]["subject"] == "rlver: reproduce Failed" and "personas: bad luck" in heard[0]["body"]
