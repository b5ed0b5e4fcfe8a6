"""Addresses come from the environment or .env, and a set variable wins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlver.tasks.runtime import environment
from rlver.tasks.runtime.kept_secrets import read_dotenv


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder; what `prepare` sets is undone afterwards."""
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    for name in ("MLFLOW_TRACKING_URI", "PREFECT_API_URL", "PREFECT_HOME", *environment.QUIET):
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    return tmp_path


def test_by_default_everything_stays_in_the_project(bare: Path) -> None:
    where = environment.prepare(bare)
    assert where == environment.Addresses(f"sqlite:///{bare}/mlflow.db", None, bare / ".prefect")
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true" and os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"


@pytest.mark.parametrize(
    ("set_before", "expected"),
    [
        ({}, None),
        ({"http_proxy": "http://proxy:3128"}, "127.0.0.1,localhost,::1"),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "intern,localhost"}, "intern,localhost,127.0.0.1,::1"),
        ({"ALL_PROXY": "http://proxy:3128", "no_proxy": "*"}, "*"),
    ],
)
def test_a_proxy_is_for_other_machines(
    bare: Path, monkeypatch: pytest.MonkeyPatch, set_before: dict[str, str], expected: str | None
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        for spelled in (name, name.upper()):
            monkeypatch.setenv(spelled, "x")
            monkeypatch.delenv(spelled)
    for name, value in set_before.items():
        monkeypatch.setenv(name, value)
    environment.prepare(bare)
    assert os.environ.get("no_proxy") == expected
    assert expected in (None, "*") or os.environ["NO_PROXY"] == expected


def test_dotenv_is_read_and_a_set_variable_wins(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / ".env").write_text(
        "# comment\n\nMLFLOW_TRACKING_URI=http://file:5000\nexport PREFECT_API_URL = 'http://127.0.0.1:4280/api'\nPREFECT_HOME=\n"
    )
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://process:5000")
    where = environment.prepare(bare)
    assert where == environment.Addresses("http://process:5000", "http://127.0.0.1:4280/api", bare / ".prefect")
    assert environment.require_prefect_server(bare) == "http://127.0.0.1:4280/api"


def test_dotenv_wins_over_what_is_set_for_quiet(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / ".env").write_text("MLFLOW_HTTP_REQUEST_TIMEOUT=99\nMLFLOW_HTTP_REQUEST_MAX_RETRIES=9\n")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
    environment.prepare(bare)
    assert (os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"], os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"]) == ("99", "3")


def test_replay_budget_and_debug_of_dotenv_count_where_nobody_prepares(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a stage that `dvc repro` starts, and in `rlver converse`."""
    monkeypatch.chdir(bare)
    for name in ("RLVER_REPLAY", "RLVER_BUDGET", "RLVER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    assert (environment.replays(), environment.budget(), environment.debug()) == (False, None, False)
    (bare / ".env").write_text("RLVER_REPLAY=1\nRLVER_BUDGET=0\nRLVER_DEBUG=1\n")
    assert (environment.replays(), environment.budget(), environment.debug()) == (True, 0.0, True)
    for name in ("RLVER_REPLAY", "RLVER_BUDGET", "RLVER_DEBUG"):
        monkeypatch.setenv(name, "0.0")
    assert (environment.replays(), environment.budget(), environment.debug()) == (False, 0.0, False), "the process wins"


def test_debug_is_asked_where_an_error_is_told_so_it_raises_none(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bare)
    monkeypatch.delenv("RLVER_DEBUG", raising=False)
    (bare / ".env").write_text("no variable\n")
    assert not environment.debug()
    (bare / "dvc.yaml").unlink()
    assert not environment.debug(), "there is no project"
    monkeypatch.setenv("RLVER_DEBUG", "1")
    assert environment.debug()


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("NAME=value # a comment", "value"),
        ("NAME='a # b' # a comment", "a # b"),
        ('NAME="two\\nlines"', "two\nlines"),
        ("NAME=a#b", "a#b"),
        ("NAME=${HOME}", "${HOME}"),
        ("export NAME = value", "value"),
        ("\ufeffNAME=value", "value"),
    ],
)
def test_dotenv_is_read_as_other_tools_read_it(tmp_path: Path, line: str, value: str) -> None:
    (tmp_path / ".env").write_text(f"{line}\nEMPTY=\nNOTHING\n", encoding="utf-8")
    assert read_dotenv(tmp_path / ".env") == {"NAME": value}


@pytest.mark.parametrize("line", ["=sk-1234", "sk-1234 x", "A='sk-1234", "A=sk\0-1234"])
def test_what_is_no_variable_is_named_by_its_line_and_not_repeated(tmp_path: Path, line: str) -> None:
    (tmp_path / ".env").write_text(f"# keys\nB=1\n{line}\n")
    with pytest.raises(ValueError, match=r"\.env:3: expected NAME=value") as error:
        read_dotenv(tmp_path / ".env")
    assert "sk" not in str(error.value)


def test_a_server_that_is_needed_and_not_set(bare: Path) -> None:
    with pytest.raises(environment.NoServer, match="start `rlver ui`"):
        environment.require_prefect_server(bare)


def test_the_root_is_found_from_below_and_its_absence_explained(bare: Path) -> None:
    below = bare / "a" / "b"
    below.mkdir(parents=True)
    assert environment.project_root(below) == bare
    (bare / ".dvc").mkdir()
    (bare / "a" / "dvc.yaml").write_text("stages: {}\n")  # as in paper/, whose pipeline was asked for
    assert environment.project_root(below) == bare
    (bare / "a" / "dvc.yaml").unlink()
    (bare / "dvc.yaml").unlink()
    with pytest.raises(environment.NoProject, match=r"no dvc.yaml in .*/a/b or above it"):
        environment.project_root(below)


def test_a_childs_python_is_ours() -> None:
    found = subprocess.run(
        ("sh", "-c", "command -v python; echo $X"), env=environment.for_child({"X": "y"}), capture_output=True, text=True, check=True
    )
    assert found.stdout == f"{Path(sys.executable).parent / 'python'}\ny\n"


def test_children_side_by_side_share_the_cores_unless_threads_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert environment.for_child(jobs=2)["OMP_NUM_THREADS"] == "3"
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert "OMP_NUM_THREADS" not in environment.for_child(), "one at a time has all cores"
    monkeypatch.setattr(environment, "cores", lambda: 8)
    assert [environment.for_child(jobs=jobs)["OMP_NUM_THREADS"] for jobs in (2, 3, 16)] == ["4", "2", "1"]


def test_the_example_names_only_variables_that_are_read(repository_root: Path) -> None:
    names = {line.lstrip("#").partition("=")[0] for line in (repository_root / ".env.example").read_text().splitlines() if "=" in line}
    assert names, ".env.example names nothing"
    source = (repository_root / "tasks" / "runtime" / "environment.py").read_text()
    assert all(f'"{name}"' in source for name in names)
