"""vLLM's server has a guard in front of it and a key that is never shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from served import wait_for
from web_attack import EVIL, PREFLIGHT, REPOSITORY, planned

from rlver.tasks.runtime import environment, servers
from rlver.tasks.runtime.serving import server as vllm

REFUSED = (400, 401, 403)


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
