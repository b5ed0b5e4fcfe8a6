"""OpenEnv's own tools at our server: its validation command and its page. Needs the package openenv."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("openenv", reason="openenv is not installed: it has an environment of its own (docs/adapters.md)")

from served_users import SERVE, served


@pytest.fixture(scope="module")
def url(repository_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(repository_root, tmp_path_factory.mktemp("served"), *SERVE, "--web") as address:
        yield address


def test_their_validation_command_passes_a_running_server(url: str) -> None:
    command = [str(Path(sys.executable).parent / "openenv"), "validate", "--url", url, "--timeout", "30", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["passed"] and len(report["criteria"]) >= 6
    assert all(one["passed"] for one in report["criteria"])


def test_their_page_is_there_with_the_name_of_the_environment(url: str) -> None:
    with urllib.request.urlopen(f"{url}/web/") as answer:
        page = answer.read().decode()
    assert answer.headers["Content-Type"].startswith("text/html") and "gradio" in page
    with urllib.request.urlopen(f"{url}/web/metadata") as answer:
        assert json.load(answer)["name"] == "rlver"
