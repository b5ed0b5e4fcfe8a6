"""DVC as people use it directly: a remote that others pull from, plots, metrics of two commits, and a run on a changed tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlver.components.domain.files import read_yaml
from rlver.tasks.tracking import records


def dvc(root: Path, *arguments: str) -> str:
    done = subprocess.run((sys.executable, "-m", "dvc", *arguments), cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commit(root: Path, message: str) -> None:
    identity = {
        f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "T"), ("EMAIL", "t@example.org"))
    }
    for command in (["git", "add", "-A"], ["git", "commit", "-qm", message]):
        subprocess.run(command, cwd=root, check=True, env={**os.environ, **identity})


@pytest.mark.slow
def test_what_one_pushes_another_pulls_without_running_anything(toy: Path, tmp_path: Path) -> None:
    dvc(toy, "repro", "-q")
    dvc(toy, "remote", "add", "--default", "shared", str(tmp_path / "remote"))
    commit(toy, "run")
    assert "pushed" in dvc(toy, "push")

    other = tmp_path / "other"
    subprocess.run(["git", "clone", "-q", str(toy), str(other)], check=True)
    assert not (other / "models").exists()
    dvc(other, "pull")
    for name in ("models/a", "models/b", "data/personas.txt", "reports/index.html"):
        assert (other / name).read_bytes() == (toy / name).read_bytes()
    assert "Data and pipelines are up to date" in dvc(other, "status")
    assert not (other / "ran.log").exists()

    shutil.rmtree(tmp_path / "remote")
    shutil.rmtree(other / ".dvc" / "cache", ignore_errors=True)
    (other / "models" / "a").unlink()
    failed = subprocess.run((sys.executable, "-m", "dvc", "pull"), cwd=other, capture_output=True, text=True, check=False)
    assert failed.returncode != 0 and "models/a" in failed.stderr


@pytest.mark.slow
def test_plots_show_the_curves_of_two_commits(toy: Path, repository_root: Path) -> None:
    plots = read_yaml(repository_root / "dvc.yaml")["plots"]
    from ruamel.yaml import YAML

    with (toy / "dvc.yaml").open("w") as file:
        YAML().dump({"plots": plots}, file)
    for emotion, message in ((20.5, "one"), (61.5, "two")):
        for name in ("evaluation", "train"):
            path = toy / "logs" / "grpo-think" / f"{name}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"step,emotion_mean,entropy\n0,{emotion},1\n15,{emotion + 5},0.5\n")
        commit(toy, message)
    shown = json.loads(dvc(toy, "plots", "diff", "HEAD~1", "HEAD", "--json"))
    assert not shown.get("errors")
    assert set(shown["data"]) == {next(iter(plot)) for plot in plots}
    values = shown["data"]["reward"][0]["content"]["data"]["values"]
    assert {row["emotion_mean"] for row in values} == {"20.5", "25.5", "61.5", "66.5"}


def test_a_run_on_a_changed_tree_is_marked(toy: Path) -> None:
    assert records.revision(toy).dirty is False  # type: ignore[union-attr]
    (toy / "params.yaml").write_text((toy / "params.yaml").read_text().replace("steps: 2", "steps: 4"))
    assert records.revision(toy).dirty is True  # type: ignore[union-attr]
