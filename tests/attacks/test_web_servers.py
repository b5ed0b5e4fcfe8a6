"""A web page that the user has open, or another program on the machine, at the servers that this project starts.

The page is at http://evil.example. It can send any request that needs no asking first (a POST without a content type, a WebSocket), ask first
(a preflight) for the others, and have its name point to 127.0.0.1, so that the browser takes the server for the page's own (DNS rebinding).
It cannot read files.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import httpx
import pytest
from web_attack import EVIL, PREFLIGHT, planned

from rlver.tasks.runtime import environment, servers

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
