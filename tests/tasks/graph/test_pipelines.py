"""Pipelines that run by name: what of them is DVC's, and plain DVC in a clone of a workspace in which some of all of them has run."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fake_graph import copy_graph

from rlver.components.domain.files import read_yaml
from rlver.tasks.graph import dvc, pipelines, selection

FOLDERS = ("paper", "pretrained", "recipes", "bigger")
RECIPE = "qwen1.5b-grpo-think-vanilla-english"


@pytest.fixture
def workspace(repository_root: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Everything is offered, or what the test names; nothing was asked for."""
    root = tmp_path / "workspace"
    offered = {f"{folder}/{pipelines.OFFERED}": f"{folder}/{pipelines.OFFERED}" for folder in getattr(request, "param", FOLDERS)}
    copy_graph(repository_root, root, offered)
    for file in (".dvcignore", ".gitignore"):
        shutil.copy(repository_root / file, root)
    (root / "components" / "personas" / "scenarios").mkdir()
    (root / "components" / "personas" / "scenarios" / "one.yaml").write_text("{}\n")
    return root


def chosen(root: Path, *variants: str) -> list[str]:
    return [step.name for step in selection.select(dvc.plan(root, all_pipelines=True), None, variants)]


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((sys.executable, "-m", "dvc", *arguments), cwd=root, capture_output=True, text=True, check=False)


def commit(root: Path) -> None:
    people = {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for command in (["git", "add", "-A"], ["git", "commit", "-qm", "run"]):
        subprocess.run(command, cwd=root, check=True, env={**os.environ, **people})


@pytest.mark.long
def test_a_stage_that_nobody_asked_for_is_not_dvcs(workspace: Path) -> None:
    offered = dvc.plan(workspace, all_pipelines=True)
    assert {step.pipeline for step in offered} == {dvc.PIPELINE, *(f"{folder}/dvc.yaml" for folder in FOLDERS)}
    assert not list(workspace.glob("*/dvc.yaml")) and len(dvc.plan(workspace)) < len(offered)
    recipe = [name for name in chosen(workspace, RECIPE) if name.startswith("recipes/")]
    assert dvc.changed(workspace, recipe) == {name: [dvc.NEVER_RAN] for name in recipe}

    pipelines.ask_for(workspace, recipe)
    assert {step.name for step in dvc.plan(workspace, all_pipelines=True)} == {step.name for step in offered}
    assert set(dvc.changed(workspace, ())) >= set(recipe)
    assert {name for name in dvc.changed(workspace, ()) if name.startswith("recipes/")} == set(recipe), "and no other recipe"


@pytest.mark.long
@pytest.mark.parametrize("workspace", [("bigger",)], indirect=True, ids=["bigger"])
def test_what_has_changed_in_an_offered_pipeline_is_a_reason(workspace: Path) -> None:
    (stage,) = [name for name in chosen(workspace, "qwen3-4b") if name.endswith(":base@qwen3-4b")]
    pipelines.ask_for(workspace, [stage])
    offered = workspace / "bigger" / "pipeline.yaml"
    offered.write_text(offered.read_text().replace("rlver.tasks.stages.base --variant", "rlver.tasks.stages.base  --variant"))
    before = (workspace / "bigger" / "dvc.yaml").read_text()
    pipelines.renew(workspace)
    after = (workspace / "bigger" / "dvc.yaml").read_text()
    assert before != after and "stages.base  --variant" in after and not (workspace / "paper" / "dvc.yaml").exists()
    offered.write_text(offered.read_text().replace("qwen3-4b", "qwen4-4b"))
    pipelines.renew(workspace)
    assert (workspace / "bigger" / "dvc.yaml").read_text() == after, "what was asked for is not forgotten"


@pytest.mark.long
@pytest.mark.parametrize("workspace", [("bigger",)], indirect=True, ids=["bigger"])
def test_what_was_asked_for_before_stays_and_asking_again_writes_nothing(workspace: Path) -> None:
    first, second = ([name for name in chosen(workspace, variant) if "bigger/" in name] for variant in ("qwen3-4b", "qwen2.5-0.5b"))
    pipelines.ask_for(workspace, first)
    pipelines.ask_for(workspace, second)
    assert {name for name in dvc.changed(workspace, ()) if "bigger/" in name} == {*first, *second}
    before = (workspace / "bigger" / "dvc.yaml").stat().st_mtime_ns
    pipelines.ask_for(workspace, first)
    assert (workspace / "bigger" / "dvc.yaml").stat().st_mtime_ns == before


@pytest.mark.long
@pytest.mark.parametrize("workspace", [("bigger",)], indirect=True, ids=["bigger"])
def test_of_two_that_ask_at_once_neither_is_forgotten(workspace: Path) -> None:
    first, second = ([name for name in chosen(workspace, variant) if "bigger/" in name] for variant in ("qwen3-4b", "qwen2.5-0.5b"))
    asked_for = workspace / "bigger" / "dvc.yaml"
    pipelines.ask_for(workspace, first)
    of_first = asked_for.read_text()
    asked_for.unlink()
    other = threading.Thread(target=pipelines.ask_for, args=(workspace, second))
    with (workspace / "bigger" / pipelines.OFFERED).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        other.start()
        other.join(0.5)
        assert other.is_alive() and not asked_for.exists(), "it waits for whoever is writing"
        asked_for.write_text(of_first)
    other.join()
    assert {name for name in dvc.changed(workspace, ()) if "bigger/" in name} == {*first, *second}


@pytest.mark.long
def test_all_of_a_pipeline_is_the_pipeline_as_it_is_offered(workspace: Path) -> None:
    pipelines.ask_for(workspace, [step.name for step in dvc.plan(workspace, all_pipelines=True)])
    for folder in FOLDERS:
        assert read_yaml(workspace / folder / "dvc.yaml") == read_yaml(workspace / folder / pipelines.OFFERED)


@pytest.mark.slow
def test_plain_dvc_is_clean_and_quiet_in_a_clone_of_a_finished_workspace(workspace: Path, tmp_path: Path) -> None:
    """Every pipeline, some of them in part; each stage has its own inputs and outputs and a stand-in for its command."""
    names = chosen(workspace, "grpo-think") + chosen(workspace, selection.ALL) + chosen(workspace, "pretrained", RECIPE, "qwen3-0.6b")
    pipelines.ask_for(workspace, names)
    for folder in (workspace, *(workspace / folder for folder in FOLDERS)):
        done = run(workspace, "repro", str((folder / "dvc.yaml").relative_to(workspace)))
        assert done.returncode == 0, done.stderr
    assert {name.partition(":")[0] for name in dvc.locked(workspace) if ":" in name} == {f"{folder}/dvc.yaml" for folder in FOLDERS}
    assert run(workspace, "remote", "add", "--default", "shared", str(tmp_path / "remote")).returncode == 0
    commit(workspace)
    assert run(workspace, "push").returncode == 0

    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(workspace), str(clone)], check=True)
    said = {command: run(clone, *command.split()) for command in ("pull", "status", "metrics show --json", "repro", "exp show --json")}
    for command, done in said.items():
        assert done.returncode == 0 and "WARNING" not in done.stderr and "ERROR" not in done.stderr, (command, done.stderr)
    assert said["status"].stdout.strip() == "Data and pipelines are up to date."
    assert "Running stage" not in said["repro"].stdout
    shown = json.loads(said["metrics show --json"].stdout)[""]["data"]
    assert {path.split("/")[0] for path in shown} == {"metrics", *(f"{folder}" for folder in FOLDERS)}
    assert all("data" in file for file in shown.values())

    changed = run(clone, "exp", "run", "--name", "other", "-S", "params.yaml:evaluation.bootstrap_samples=77")
    assert changed.returncode == 0 and "ERROR" not in changed.stderr, changed.stderr
    assert "Running stage 'score@base'" in changed.stdout and "Running stage 'train" not in changed.stdout
    assert run(clone, "exp", "show").returncode == 0
