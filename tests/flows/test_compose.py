"""compose.yaml without Docker: what is pinned, what is bound where, and that the servers take the options they are given."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
import venv
from pathlib import Path
from typing import Any

import pytest

from rlver.components.domain.files import read_yaml
from rlver.tasks.runtime import servers

SECRET = "${POSTGRES_PASSWORD:?put POSTGRES_PASSWORD into .env}"


@pytest.fixture(scope="module")
def services(repository_root: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_yaml(repository_root / "compose.yaml")["services"]
    return found


def test_every_port_is_bound_to_this_machine_only(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service["ports"]]
    assert len(ports) == 3 and all(port.startswith("127.0.0.1:") for port in ports)


def test_every_service_is_health_checked_and_waits_for_its_database(services: dict[str, Any]) -> None:
    assert all({"test", "interval", "timeout", "retries"} <= set(service["healthcheck"]) for service in services.values())
    for name in ("prefect", "mlflow"):
        assert services[name]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_versions_are_those_of_the_lock(repository_root: Path) -> None:
    lock = (repository_root / "constraints.txt").read_text()
    for name in ("prefect", "mlflow"):
        text = (repository_root / "deploy" / f"{name}.Dockerfile").read_text()
        assert "\nCOPY constraints.txt /\n" in text and "\nUSER rlver" in text
        first, *others = installed(text)
        assert first == name and re.search(rf"^{name}==", lock, re.MULTILINE)
        assert all("==" in package for package in others), "what the lock does not hold is pinned in its place"


def installed(dockerfile: str) -> list[str]:
    """What an image installs within the bounds of the lock."""
    found = re.search(r"^RUN pip install --no-cache-dir -c /constraints.txt (.*?)(?: &&|$)", dockerfile, re.MULTILINE)
    assert found, "it installs nothing from the lock"
    return shlex.split(found[1])


def test_the_password_comes_from_the_environment_and_has_no_default(services: dict[str, Any], repository_root: Path) -> None:
    assert services["postgres"]["environment"]["POSTGRES_PASSWORD"] == SECRET
    text = (repository_root / "compose.yaml").read_text()
    assert all(f"rlver:{SECRET}@postgres" in line for line in text.splitlines() if "://rlver" in line)
    assert not re.search(r"POSTGRES_PASSWORD:-", text)
    assert not any("POSTGRES" in part for service in services.values() for part in service.get("command", ())), "everybody sees those"


def test_databases_and_volumes_that_are_named_exist(services: dict[str, Any], repository_root: Path) -> None:
    compose = read_yaml(repository_root / "compose.yaml")
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in compose["volumes"] or (repository_root / source).is_file()
        if "build" in service:
            assert (repository_root / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    made = {
        services["postgres"]["environment"]["POSTGRES_DB"],
        *re.findall(r"CREATE DATABASE (\w+);", (repository_root / "deploy/databases.sql").read_text()),
    }
    used = set(re.findall(r"@postgres:5432/(\w+)", (repository_root / "compose.yaml").read_text()))
    assert used == made == {"prefect", "mlflow"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prefect", "mlflow"])
def test_an_image_s_server_answers_its_health_check_over_sqlite(
    services: dict[str, Any], tmp_path: Path, repository_root: Path, name: str
) -> None:
    """What its Dockerfile installs, in an environment of its own. The database is the one thing that is another here."""
    python = tmp_path / "venv" / "bin" / "python"
    venv.create(tmp_path / "venv", with_pip=True)
    packages = installed((repository_root / "deploy" / f"{name}.Dockerfile").read_text())
    pip = (python, "-m", "pip", "install", "--quiet", "-c", repository_root / "constraints.txt", *packages)
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    service, port = services[name], servers.free_port(15410)
    inside = service["ports"][0].rpartition(":")[2]
    command = [
        part.replace(inside, str(port)).replace("0.0.0.0", "127.0.0.1").replace("/mlartifacts", str(tmp_path / "a"))
        for part in service["command"]
    ]
    environment = {**os.environ, **service["environment"], "PREFECT_HOME": str(tmp_path / "home")}
    environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = f"sqlite+aiosqlite:///{tmp_path}/prefect.db"
    environment["MLFLOW_BACKEND_STORE_URI"] = f"sqlite:///{tmp_path}/mlflow.db"
    check = [part.replace(inside, str(port)) for part in service["healthcheck"]["test"][1:]]
    with subprocess.Popen(
        [python, "-m", *command], cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            end = time.monotonic() + 180
            while subprocess.run([python, *check[1:]], capture_output=True, check=False).returncode:
                assert time.monotonic() < end and server.poll() is None, f"{name} does not answer"
                time.sleep(1)
        finally:
            server.terminate()
