from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rlver.components.ability.noninferiority import read_general
from rlver.tasks.runtime.stage import run_stage
from rlver.tasks.stages import benchmark

ROOT = Path(__file__).parents[3]


def run(folder: Path, model: Path) -> int:
    arguments = ["--variant", "base", "--model", str(model), "--out", str(folder / "general.json"), "--params", str(folder / "params.yaml")]
    return run_stage(lambda: benchmark.main(arguments))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "params.yaml", tmp_path / "params.yaml")
    shutil.copytree(ROOT / "params", tmp_path / "params")
    return tmp_path


def test_the_tasks_of_the_parameters_are_run(project: Path, tiny_model: Path):
    assert run(project, tiny_model) == 0
    first = (project / "general.json").read_bytes()
    results = json.loads(first)
    assert set(results["tasks"]) == {"rlver_tiny_likelihood", "rlver_tiny_choice"}
    assert all(task["margin"] == 0.05 for task in results["tasks"].values())
    assert len(results["settings_digest"]) == 12
    assert not any("items" in task for task in results["tasks"].values()), "hashes are no metrics"
    together = read_general(project / "general.json")
    assert all(
        len(task["items"]) == task["n"] and {"doc", "prompt", "score"} <= set(task["items"][0]) for task in together["tasks"].values()
    )
    assert run(project, tiny_model) == 0
    assert (project / "general.json").read_bytes() == first


def test_a_missing_model_is_one_line_and_writes_nothing(project: Path, capsys: pytest.CaptureFixture[str]):
    assert run(project, project / "nowhere") == 1
    error = capsys.readouterr().err
    assert "nowhere: no model there" in error and error.count("\n") == 1
    assert not (project / "general.json").exists()
