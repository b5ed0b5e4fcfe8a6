"""What `rlver init` lays out: the checkout's own files, its graph, and a record of the code that an upgrade changes."""

from __future__ import annotations

import json
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from rlver.tasks.commands.workspace import FILES, TEMPLATES, lay_out
from rlver.tasks.graph import dvc
from rlver.tasks.runtime import installed


def test_what_is_laid_out_are_the_checkouts_own_files(repository_root: Path, tmp_path: Path) -> None:
    lay_out(tmp_path / "w")
    for name, path in FILES.items():
        assert (TEMPLATES / name).resolve() == repository_root / path
    for path in (tmp_path / "w").rglob("*"):
        if (
            path.is_file()
            and path.name not in ("dvc.yaml", "pipeline.yaml", "code.json")
            and ".git" not in path.relative_to(tmp_path / "w").parts
        ):
            own = (repository_root / path.relative_to(tmp_path / "w")).read_text()
            assert path.read_text().removesuffix("    no_scm = true\n") == own, path


@pytest.mark.long
def test_the_graph_of_a_workspace_is_the_checkouts_with_one_file_for_the_code(plan: list[dvc.Stage], tmp_path: Path) -> None:
    lay_out(tmp_path / "w")
    theirs = dvc.plan(tmp_path / "w", all_pipelines=True)
    code = ("components/", "tasks/", "flows/")
    assert len(plan) > 50 and [step.name for step in plan] == [step.name for step in theirs]
    for own, other in zip(plan, theirs, strict=True):
        assert (own.writes, own.command, own.needs) == (other.writes, other.command, other.needs)
        assert "code.json" in other.reads
        assert {path for path in own.reads if not path.startswith(code)} == set(other.reads) - {"code.json"}


def test_an_upgrade_makes_every_stage_of_a_workspace_out_of_date(tmp_path: Path) -> None:
    lay_out(tmp_path / "w")
    assert json.loads((tmp_path / "w" / "code.json").read_text())["rlver"] == metadata.version("rlver")
    (tmp_path / "w" / "code.json").write_text('{"rlver": "0.0.1", "digest": "of old"}\n')
    steps = dvc.plan(tmp_path / "w")
    assert (tmp_path / "w" / "code.json").read_text() == installed.code()
    assert all("code.json" in step.reads for step in steps)


def test_a_checkout_has_no_record_of_the_code(tmp_path: Path) -> None:
    installed.refresh(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_workspace_is_laid_out_in_an_empty_folder_only(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(ValueError, match=r"not empty \(it holds mine.txt\)"):
        lay_out(tmp_path)
    with pytest.raises(ValueError, match="is a file"):
        lay_out(tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "mine.txt").rename(tmp_path / "pyvenv.cfg")
    environment = tmp_path / "new" / ".venv-openenv"
    environment.mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").rename(environment / "pyvenv.cfg")
    lay_out(tmp_path / "new")


def test_in_a_folder_that_git_ignores_it_is_a_repository_of_its_own(tmp_path: Path) -> None:
    """DVC passes over what git ignores: the graph would be empty."""
    subprocess.run(("git", "init", "-q"), cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("/w/\n")
    lay_out(tmp_path / "w")
    assert (tmp_path / "w" / ".git").is_dir() and dvc.plan(tmp_path / "w")
    lay_out(tmp_path / "seen")
    assert not (tmp_path / "seen" / ".git").exists()


def test_without_git_dvc_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    lay_out(tmp_path / "w")
    assert "no_scm = true" in (tmp_path / "w" / ".dvc" / "config").read_text()
    assert dvc.plan(tmp_path / "w")
