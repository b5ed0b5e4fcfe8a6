"""Prefect's server: its key, and who else it lets in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest
from served import rlver, wait_for
from web_attack import EVIL, PREFLIGHT, REPOSITORY

from rlver.tasks.runtime import servers

REFUSED = (400, 401, 403)


# Prefect's server


@pytest.mark.slow
def test_a_web_page_cannot_change_a_deployment_and_run_a_shell_command(
    toy: Path, tracking_uri: str, home: Path, tmp_path: Path, repository_root: Path
) -> None:
    """All that was done on `rlver serve-deployments`: ask, change what is pulled, have it run. On the page's side nothing is held back."""
    (toy / "prefect.yaml").write_bytes((repository_root / "prefect.yaml").read_bytes())
    owned = tmp_path / "owned"
    step = {"prefect.deployments.steps.run_shell_script": {"script": f"touch {owned}"}}
    with (
        servers.prefect(toy, servers.free_port(15480)) as server,
        rlver("serve-deployments", root=toy, PREFECT_API_URL=f"{server.url}/api"),
    ):
        database = home / "prefect.db"
        (served,) = wait_for(lambda: _ids(database, "nightly"), 90)  # the page would ask; here it knows
        with httpx.Client(base_url=f"{server.url}/api", headers={"Origin": EVIL}, timeout=30) as page:
            asked = page.options(f"/deployments/{served}", headers=PREFLIGHT)
            listed = page.post("/deployments/filter", json={})
            changed = page.patch(f"/deployments/{served}", json={"pull_steps": [step]})
            run = page.post(f"/deployments/{served}/create_flow_run", json={"state": {"type": "SCHEDULED"}})
        if run.is_success:
            wait_for(owned.exists, 120)
        assert not owned.exists()
        assert (asked.status_code, listed.status_code, changed.status_code, run.status_code) == (400, 401, 401, 401)
        assert "access-control-allow-origin" not in asked.headers


def _ids(database: Path, deployment: str) -> list[str]:
    """From the file: whoever asks the server needs the key, before and after."""
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as file:
        return [str(row[0]) for row in file.execute("select id from deployment where name = ?", (deployment,))]


@pytest.mark.slow
def test_prefect_s_server_lets_in_the_key_and_its_own_page_and_nobody_else(home: Path, tmp_path: Path) -> None:
    from websockets.exceptions import ConnectionClosed, InvalidStatus
    from websockets.sync.client import connect
    from websockets.typing import Origin, Subprotocol

    with servers.prefect(tmp_path, servers.free_port(15490)) as server:
        port = int(server.url.rpartition(":")[2])
        with httpx.Client(base_url=f"{server.url}/api", timeout=30) as page:
            asked = {
                origin: page.options("/flows/filter", headers={**PREFLIGHT, "Origin": origin}).status_code
                for origin in (EVIL, "null", "http://127.0.0.1:1", server.url, f"http://localhost:{port}")
            }
            assert asked == {EVIL: 400, "null": 400, "http://127.0.0.1:1": 400, server.url: 200, f"http://localhost:{port}": 200}

            rebound = {"Host": f"evil.example:{port}", "Origin": f"{EVIL}:{port}"}
            assert page.post("/deployments/filter", json={}, headers=rebound).status_code == 401
            assert page.get("/admin/settings", headers=rebound).status_code == 401
            # A browser sends a Blob without a type as it is, and asks nobody first: Prefect would take it for JSON.
            blind = page.build_request("POST", "/events", content=b"[]", headers={"Origin": EVIL})
            assert "content-type" not in blind.headers and page.send(blind).status_code == 401
            assert page.post("/automations/", content=b"{}", headers={"Origin": EVIL}).status_code == 401
            key = (home / f"{port}.key").read_text().strip()
            for wrong in ("", "guess", key):
                assert page.post("/flows/filter", json={}, auth=("rlver", wrong)).status_code == 401
            assert page.get("/health").status_code == 200
            assert page.post("/flows/filter", json={}, auth=("rlver", key.partition(":")[2])).json() == []

        def let_in(path: str, token: str | None, protocols: tuple[str, ...] = ("prefect",)) -> bool:
            """Pages of all origins may open a WebSocket; on Prefect's, the first message carries the key."""
            try:
                with connect(
                    f"ws://127.0.0.1:{port}/api/{path}", origin=Origin(EVIL), subprotocols=[*map(Subprotocol, protocols)]
                ) as socket:
                    socket.send(json.dumps({"type": "auth", "token": token}))
                    return bool(json.loads(socket.recv(timeout=20))["type"] == "auth_success")
            except (ConnectionClosed, InvalidStatus):
                return False

        for path in ("events/in", "events/out", "logs/out"):
            assert not let_in(path, None) and not let_in(path, "rlver:guess") and not let_in(path, key, protocols=()), path
            assert let_in(path, key), path
        assert key not in server.log.read_text() and key not in " ".join(psutil.Process(server.process.pid).cmdline())


@pytest.mark.slow
def test_nobody_else_is_let_in_by_the_temporary_server_of_a_run(toy: Path, tracking_uri: str, home: Path) -> None:
    (toy / "sleep-train-a").write_text("12")
    with rlver("run", root=toy) as process:
        wait_for(lambda: (toy / "ran.log").is_file() and "train-a" in (toy / "ran.log").read_text(), 180)
        (port,) = {
            connection.laddr.port
            for child in psutil.Process(process.pid).children(recursive=True)
            if any("prefect.server" in part for part in child.cmdline())
            for connection in child.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/api", headers={"Origin": EVIL}, timeout=30) as page:
            said = [
                page.options("/flows/filter", headers=PREFLIGHT).status_code,
                page.post("/flow_runs/filter", json={}).status_code,
                page.post("/flow_runs/filter", json={}, headers={"Host": f"evil.example:{port}"}).status_code,
            ]
        output, _ = process.communicate(timeout=180)
    assert said == [400, 401, 401]
    assert process.returncode == 0 and "4 of 4 stages ran" in output, output


@pytest.mark.slow
def test_a_server_that_does_not_take_our_key_is_told_in_one_line(toy: Path, tracking_uri: str, home: Path, repository_root: Path) -> None:
    (toy / "prefect.yaml").write_bytes((repository_root / "prefect.yaml").read_bytes())
    with servers.prefect(toy, servers.free_port(15495)) as server:
        wrong = {"PREFECT_API_URL": f"{server.url}/api", "PREFECT_API_AUTH_STRING": "rlver:of-another"}
        for command in (["run"], ["serve-deployments"], ["promote", "a"]):
            done = subprocess.run(
                (sys.executable, "-m", "rlver.flows.cli", *command),
                cwd=toy,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), **wrong},
                capture_output=True,
                text=True,
                timeout=120,
            )
            (line,) = done.stderr.splitlines()
            assert done.returncode == 1 and "does not take our key: put PREFECT_API_AUTH_STRING=… into .env" in line


@pytest.mark.slow
def test_a_person_logs_in_to_prefect_s_page_once_in_a_browser(home: Path, tmp_path: Path) -> None:
    import blind_browser

    if not blind_browser.FOUND:
        pytest.skip("no Chromium on this machine")
    with servers.prefect(tmp_path, servers.free_port(15500)) as server, blind_browser.browser(tmp_path / "profile") as person:
        port = server.url.rpartition(":")[2]
        key = (home / f"{port}.key").read_text().strip()
        for name in ("127.0.0.1", "localhost"):
            person.open(f"http://{name}:{port}")
            person.wait("location.pathname.includes('login') && !!document.querySelector('input')")
            person.value("document.querySelector('input').focus()")
            person.type(key)
            person.key("Enter")
            person.wait("location.pathname.includes('dashboard') && document.body.innerText.includes('Run a task or flow to get started')")
            person.open(f"http://{name}:{port}/v2/deployments")
            person.wait("location.pathname.includes('deployments') && document.body.innerText.includes('Deployments')")
        assert not [problem for problem in person.problems if "CORS" in problem]
