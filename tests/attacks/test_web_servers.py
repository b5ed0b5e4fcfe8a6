"""A web page that the user has open, or another program on the machine, at the servers that this project starts.

The page is at http://evil.example. It can send any request that needs no asking first (a POST without a content type, a WebSocket), ask first
(a preflight) for the others, and have its name point to 127.0.0.1, so that the browser takes the server for the page's own (DNS rebinding).
It cannot read files.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psutil
import pytest

from rlver.tasks.runtime import environment, servers
from rlver.tasks.runtime.serving import server as vllm

REPOSITORY = Path(__file__).parents[2]
EVIL = "http://evil.example"
PREFLIGHT = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "content-type"}
REFUSED = (400, 401, 403)


def wait_for(what: Callable[[], Any], seconds: float) -> Any:
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"nothing after {seconds} s"
        time.sleep(0.3)
    return found


@contextmanager
def rlver(*arguments: str, root: Path, **values: str) -> Iterator[subprocess.Popen[str]]:
    """A running `rlver`, interrupted at the end."""
    command = (sys.executable, "-m", "rlver.flows.cli", *arguments)
    surroundings = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", **values}
    with subprocess.Popen(command, cwd=root, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def planned(what: Any, monkeypatch: pytest.MonkeyPatch) -> servers.PlannedServer:
    """The server that would be started."""
    seen: list[servers.PlannedServer] = []

    class Seen(Exception):
        pass

    def look(one: servers.PlannedServer) -> None:
        seen.append(one)
        raise Seen

    monkeypatch.setattr(servers, "serving", look)
    with pytest.raises(Seen), what():
        pass
    return seen[0]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """PREFECT_HOME of this test; what `prepare` sets is undone afterwards."""
    for name in ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING", "PREFECT_SERVER_CORS_ALLOWED_ORIGINS"):
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    return tmp_path / "prefect"


# Keys: without a server


def test_prefect_s_server_has_a_key_that_only_its_owner_reads(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = planned(lambda: servers.prefect(tmp_path, 4280), monkeypatch)
    key = one.environment["PREFECT_SERVER_API_AUTH_STRING"]
    file = home / "4280.key"
    assert len(key) > 40 and file.read_text().strip() == key and file.stat().st_mode & 0o777 == 0o600
    assert key not in " ".join(one.command)
    assert one.environment["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] == "http://127.0.0.1:4280,http://localhost:4280"
    again = planned(lambda: servers.prefect(tmp_path, 4280), monkeypatch)
    assert again.environment["PREFECT_SERVER_API_AUTH_STRING"] == key, "a browser stays logged in"
    other = planned(lambda: servers.prefect(tmp_path, 4281), monkeypatch)
    assert other.environment["PREFECT_SERVER_API_AUTH_STRING"] != key, "one server, one key"


def test_a_key_that_others_could_read_is_not_used_again(tmp_path: Path) -> None:
    key = environment.keep_key(tmp_path, 4280)
    environment.key_file(tmp_path, 4280).chmod(0o644)
    assert environment.keep_key(tmp_path, 4280) != key
    assert environment.key_file(tmp_path, 4280).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:4281/api",
        "http://prefect.example:4280/api",
        "https://127.0.0.1:4280/api",
        "http://127.0.0.1:4280@evil.example/api",
        "http://127.0.0.1.evil.example:4280/api",
        "http://u@127.0.0.1:4280/api",
    ],
)
def test_a_key_goes_to_the_server_it_was_made_for_only(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    key = environment.keep_key(home, 4280)
    monkeypatch.setenv("PREFECT_API_URL", url)
    environment.prepare(tmp_path)
    assert environment.prefect_headers() == {}
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4280/api")
    environment.prepare(tmp_path)
    assert environment.prefect_headers() and os.environ["PREFECT_API_AUTH_STRING"] == key


@pytest.mark.parametrize(
    ("key", "address", "ours", "other"),
    [
        ("PREFECT_API_AUTH_STRING", "PREFECT_API_URL", "http://team.example:4200/api", "http://other.example:4200/api"),
        ("RLVER_POLICY_SERVER_KEY", "RLVER_POLICY_SERVER_URL", "http://team.example:7400", "http://other.example:7400"),
    ],
)
def test_a_key_of_dotenv_stays_with_the_address_of_dotenv(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, address: str, ours: str, other: str
) -> None:
    (tmp_path / ".env").write_text(f"{address}={ours}\n{key}=rlver:secret\n")

    def sent(url: str | None) -> bool:
        for name in (key, address):
            monkeypatch.delenv(name, raising=False)
        if url:
            monkeypatch.setenv(address, url)
        environment.prepare(tmp_path)
        return bool(environment.policy_server_key(tmp_path, url or ours) if "POLICY" in key else environment.prefect_headers())

    assert sent(None) and sent(ours) and not sent(other)


def test_the_temporary_server_of_a_flow_has_a_fresh_key_and_no_page_may_ask_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("PREFECT_API_AUTH_STRING=of:another\n")
    keys = ["of:another"]
    for _ in range(2):  # two processes
        for name in ("PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING"):
            monkeypatch.delenv(name, raising=False)
        for _ in range(2):  # a flow prepares again what its command has prepared
            environment.prepare(tmp_path)
            assert os.environ["PREFECT_SERVER_API_AUTH_STRING"] == os.environ["PREFECT_API_AUTH_STRING"]
        keys.append(os.environ["PREFECT_API_AUTH_STRING"])
        assert os.environ["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] == ""
    assert len(set(keys)) == 3 and not list(tmp_path.rglob("*.key")), "in no file"


def test_compose_s_servers_want_a_key_and_answer_to_their_own_address(repository_root: Path) -> None:
    from rlver.components.domain.files import read_yaml

    services = read_yaml(repository_root / "compose.yaml")["services"]
    prefect = services["prefect"]["environment"]
    assert re.fullmatch(r"\$\{PREFECT_API_AUTH_STRING:\?.+\}", prefect["PREFECT_SERVER_API_AUTH_STRING"]), "no default"
    assert prefect["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] == "http://127.0.0.1:4200,http://localhost:4200"
    options = services["mlflow"]["command"]
    assert options[options.index("--allowed-hosts") + 1] == "127.0.0.1:5000,localhost:5000"
    assert options[options.index("--cors-allowed-origins") + 1] == "http://127.0.0.1:5000,http://localhost:5000"


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


# MLflow's server


@pytest.mark.slow
def test_mlflow_s_server_answers_to_its_own_name_and_its_own_pages(tmp_path: Path, tracking_uri: str) -> None:
    with servers.mlflow(tmp_path, tracking_uri, servers.free_port(15510)) as server:
        port = server.url.rpartition(":")[2]
        with httpx.Client(base_url=server.url, timeout=60) as page:

            def search(**headers: str) -> int:
                return page.post("/api/2.0/mlflow/experiments/search", json={"max_results": 5}, headers=headers).status_code

            names = {name: (search(Host=name), page.get("/", headers={"Host": name}).status_code) for name in (
                f"127.0.0.1:{port}", f"localhost:{port}", "evil.example", f"evil.example:{port}", "10.evil.example", "192.168.evil.example"
            )}  # fmt: skip
            assert names == {name: (200, 200) if name.startswith(("127", "local")) else (403, 403) for name in names}
            origins = {origin: search(Origin=origin) for origin in (server.url, f"http://localhost:{port}", EVIL, "null")}
            assert origins == {server.url: 200, f"http://localhost:{port}": 200, EVIL: 403, "null": 403}
            asked = page.options("/api/2.0/mlflow/experiments/search", headers={**PREFLIGHT, "Origin": EVIL})
            assert asked.status_code == 400 and "access-control-allow-origin" not in asked.headers


def test_mlflow_s_server_is_planned_with_the_names_it_answers_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = planned(lambda: servers.mlflow(tmp_path, f"sqlite:///{tmp_path}/mlflow.db", 5080), monkeypatch)
    assert one.environment["MLFLOW_SERVER_ALLOWED_HOSTS"] == "127.0.0.1:5080,localhost:5080"
    assert one.environment["MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"] == "http://127.0.0.1:5080,http://localhost:5080"


# vLLM's server


def test_vllm_s_server_is_planned_with_a_guard_and_a_key_that_no_command_line_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "python_of", lambda root: (Path(sys.executable), "cpu"))
    one = planned(lambda: vllm.serving(tmp_path, vllm.Serving("models/base", 256, 4), 7499), monkeypatch)
    command = " ".join(one.command)
    assert "--middleware guard.OnlyWithKey" in command and "--allowed-origins []" in command
    key = one.environment["VLLM_API_KEY"]
    assert len(key) > 40 and key not in command
    assert not (tmp_path / ".vllm" / "7499.key").exists(), "gone with its server"


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The guard in front of something that says yes to all, on a real port, as vLLM puts it there."""
    import threading

    import uvicorn

    monkeypatch.syspath_prepend(str(Path(vllm.__file__).parent))
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "vllm.envs", SimpleNamespace(VLLM_API_KEY="rlver:right"))
    import guard

    async def yes(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"yes"})

    port = servers.free_port()
    server = uvicorn.Server(uvicorn.Config(guard.OnlyWithKey(yes), host="127.0.0.1", port=port, lifespan="off", log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started, 20)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(20)
    sys.modules.pop("guard")


def test_the_guard_lets_nobody_in_without_the_key_at_any_address(guarded: str) -> None:
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    right = {"Authorization": "Bearer rlver:right"}
    wrong: list[dict[str, str]] = [{}, *({"Authorization": value} for value in ("Bearer rlver:wrong", "Basic rlver:right", "Bearer"))]
    with httpx.Client(headers={"Origin": EVIL}, trust_env=False) as page:
        for path in ("/collective_rpc", "/v1/models", "/inference/v1/generate", "/health/../pause", "//health", "/healthy", "/docs", "/"):
            assert [page.post(guarded + path, content=b"{}", headers=headers).status_code for headers in wrong] == [401] * 4, path
            assert page.post(guarded + path, content=b"{}", headers=right).status_code == 200
        assert page.options(f"{guarded}/collective_rpc", headers=PREFLIGHT).status_code == 401
        assert page.get(f"{guarded}/health").status_code == 200 and page.post(f"{guarded}/health").status_code == 401
        twice = [("Authorization", "Bearer rlver:right"), ("Authorization", "Bearer rlver:wrong")]
        assert page.post(f"{guarded}/pause", headers=twice).status_code == 401
    with pytest.raises(InvalidStatus), connect(f"{guarded.replace('http', 'ws')}/v1/realtime"):
        pass


def test_the_guard_without_a_key_lets_no_server_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(vllm.__file__).parent))
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "vllm.envs", SimpleNamespace(VLLM_API_KEY=None))
    import guard

    with pytest.raises(ValueError, match="VLLM_API_KEY is not set"):
        guard.OnlyWithKey(None)
    sys.modules.pop("guard")


def test_the_policy_server_s_key_is_sent_and_never_shown(guarded: str) -> None:
    from rlver.components.policy.policy_server import PolicyServer, PolicyServerFailed, connection

    with httpx.Client(**connection(guarded, "rlver:right")) as client:
        assert client.post("/pause").status_code == 200
    assert "right" not in repr(PolicyServer(guarded, "rlver:right"))
    with pytest.raises(PolicyServerFailed, match=r"does not take our key: set RLVER_POLICY_SERVER_KEY"):
        PolicyServer(guarded, "rlver:wrong").version()


@pytest.mark.live
def test_real_vllm_lets_nobody_in_without_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ruamel.yaml import YAML
    from small_project import make_project

    from rlver.tasks.runtime.serving.setup import FOLDER, NotSetUp, python_of
    from rlver.tasks.stages import base

    try:
        python_of(REPOSITORY)
    except NotSetUp as missing:
        pytest.skip(str(missing))
    make_project(tmp_path, save_every=2, evaluate_every=2)
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    (tmp_path / FOLDER).symlink_to(REPOSITORY / FOLDER)
    params = tmp_path / "params.yaml"
    values = YAML(typ="safe").load(params.read_text())
    values["base"] |= {"hidden_size": 64, "heads": 2}
    YAML(typ="safe").dump(values, params)
    monkeypatch.chdir(tmp_path)
    assert base.main(["--personas", "train.jsonl", "--out", "models/base", "--metrics", "metrics/base.json"]) == 0
    with vllm.serving(tmp_path, vllm.Serving("models/base", 256, 4)) as server, httpx.Client(base_url=server.url, timeout=60) as page:
        evil = {"Origin": EVIL, "Content-Type": "text/plain"}
        for path in ("/collective_rpc", "/pause", "/resume", "/update_weight_version", "/reset_prefix_cache", "/inference/v1/generate"):
            assert page.post(path, content=b"{}", headers=evil).status_code == 401, path
        for path in ("/weight_info", "/is_paused", "/server_info", "/v1/models", "/metrics", "/docs", "/openapi.json"):
            assert page.get(path, headers={"Origin": EVIL}).status_code == 401, path
        assert page.options("/collective_rpc", headers={**PREFLIGHT, "Origin": EVIL}).status_code in REFUSED
        assert page.get("/health").status_code == 200
        key = environment.policy_server_key(tmp_path, server.url)
        assert page.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code == 200
