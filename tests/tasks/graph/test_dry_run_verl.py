"""The dry run of a variant that verl trains: what it says of the engine, and what it misses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rlver.tasks.graph import dry_run, dvc, selection
from rlver.tasks.graph.dry_run import Machine
from rlver.tasks.runtime import verl_process

ROOT = Path(__file__).parents[3]
CPU = Machine(None, 10**12, 10**13)


@pytest.fixture
def lines(tmp_path: Path, plan: list[dvc.Stage]) -> tuple[list[str], list[str]]:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "params", tmp_path / "params")
    shutil.copy(ROOT / "params" / "verl.yaml", tmp_path / "params" / "grpo-think.yaml")
    for name in ("components", "tasks"):
        (tmp_path / name).symlink_to(ROOT / name)
    chosen = [step for step in selection.select(plan, None, ["grpo-think"]) if step.group == "train"]
    told = dry_run.estimate(tmp_path, chosen, {step.name: ["asked for"] for step in chosen}, CPU)
    return told.lines, told.missing


def test_the_engine_is_named_with_what_it_takes(lines: tuple[list[str], list[str]]) -> None:
    said, _ = lines
    assert "  engine     verl, on 1 x 8 GPUs: .venv-verl/bin/python, recipe recipes/verl" in said
    assert [line for line in said if line.startswith("  memory")] == [
        "  memory     verl's to say: weights, gradients and optimiser are shared out among the GPUs"
    ]
    assert "  training   grpo: 210 steps of 32 x 4 dialogues, learning rate 1e-06" in said
    checks = 10 * 32  # at step 0, after every 25 of 210, and at the end
    assert f"  dialogues  {210 * 32 * 4 + checks:,}, {checks} of them with held-out personas" in said


def test_what_verl_lacks_here_is_missing(lines: tuple[list[str], list[str]]) -> None:
    _, missing = lines
    verl, unwatched = (one for one in missing if "verl" in one)
    assert unwatched == "train@grpo-think does not watch recipes/verl: in dvc.yaml, name it in by_verl and not in trained"
    assert "needs verl and rlver in train.verl_python = .venv-verl/bin/python" in verl and verl_process.INSTALL in verl
    assert not any("torch sees none" in one for one in missing), "our own torch may know of no GPU"
