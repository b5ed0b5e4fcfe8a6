"""kill -9 at 30 moments, spread over every stage of the real graph in small: the rerun gives what an undisturbed run gave.

DVC, the shell and the stage die together, as when the machine is switched off. The moment is drawn from the time that the stage took
undisturbed, from the moment on at which DVC started it. Before each kill the stage's outputs, and DVC's cache of them, are gone, so that nothing can be restored from there.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import torch
from small_project import weights
from whole_project import make_whole_project, start, succeed

from tasks import dvc

KILLS = 3  # in each stage
STAGES = (
    "personas",
    "base",
    "train@grpo-think",
    *(f"{stage}@{variant}" for stage in ("converse", "score", "benchmark") for variant in ("base", "grpo-think")),
    "report",
)
pytestmark = pytest.mark.slow


class Undisturbed(NamedTuple):
    root: Path
    steps: dict[str, dvc.Stage]
    seconds: dict[str, float]
    outputs: dict[str, dict[str, Any]]


class Kill(NamedTuple):
    stage: str
    after_s: float  # from the moment at which DVC started the stage
    said: str  # by the stage until then


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The whole graph, run once by nobody disturbed."""
    root = tmp_path_factory.mktemp("killed") / "project"
    make_whole_project(root)
    steps, seconds = {step.name: step for step in dvc.plan(root)}, {}
    for name in steps:
        process = running(root, name)
        began = time.monotonic()
        assert process.wait() == 0
        seconds[name] = time.monotonic() - began
    return Undisturbed(root, steps, seconds, {name: outputs(root, step) for name, step in steps.items()})


def test_every_stage_is_killed_and_has_something_to_compare(undisturbed: Undisturbed) -> None:
    assert set(undisturbed.steps) == set(STAGES) and KILLS * len(STAGES) == 30
    assert all(undisturbed.outputs.values())


@pytest.mark.parametrize("stage", STAGES)
def test_after_a_kill_at_any_moment_a_rerun_gives_the_right_result(
    stage: str, undisturbed: Undisturbed, capsys: pytest.CaptureFixture[str]
) -> None:
    root, step, usual_s = undisturbed.root, undisturbed.steps[stage], undisturbed.seconds[stage]
    random = Random(f"kill -9 in {stage}")
    for _ in range(KILLS):
        kill = killed(root, step, usual_s, random)
        succeed(root, "repro", "--single-item", stage)
        assert_same(outputs(root, step), undisturbed.outputs[stage], kill)
        with capsys.disabled():
            print(f"\n{stage:22} killed after {kill.after_s:4.1f} of {usual_s:4.1f} s: right result", end="")
    succeed(root, "repro")
    assert dvc.changed(root) == {}


def running(root: Path, stage: str) -> subprocess.Popen[bytes]:
    """DVC, at the moment at which it starts the stage's command."""
    log = root / "said.log"
    log.unlink(missing_ok=True)
    process = start(root, "repro", "--single-item", stage)
    while f"Running stage '{stage}'" not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text(errors="replace")
        time.sleep(0.02)
    return process


def killed(root: Path, step: dvc.Stage, usual_s: float, random: Random) -> Kill:
    """Run the stage from nothing and kill it; drawn again where it was over before."""
    while True:
        forget(root, step)
        after_s = random.uniform(0.0, 1.0) * usual_s
        process = running(root, step.name)
        try:
            process.wait(timeout=after_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return Kill(step.name, after_s, (root / "said.log").read_text(errors="replace")[-200:])


def forget(root: Path, step: dvc.Stage) -> None:
    """No outputs, and no cache to restore them from; what a training has saved in scratch/ goes too, or it would have nothing to do."""
    shutil.rmtree(root / ".dvc" / "cache", ignore_errors=True)
    for path in (*step.writes, "scratch"):
        there = root / path
        shutil.rmtree(there) if there.is_dir() else there.unlink(missing_ok=True)


def outputs(root: Path, step: dvc.Stage) -> dict[str, Any]:
    """What the stage made, by path: values for what holds times or trained weights, bytes for all the rest."""
    files = [path for place in step.writes for path in ([root / place] if (root / place).is_file() else (root / place).rglob("*"))]
    found = {str(path.relative_to(root)): path.read_bytes() for path in files if path.is_file()}
    if step.group == "base":
        found = {name: content for name, content in found.items() if not name.endswith(".safetensors")}
    if step.group in ("train", "base"):
        model = next(root / place for place in step.writes if place.startswith("models/"))
        found = {name: without_times(name, content) for name, content in found.items()}
        found |= {f"{model.name}: weights": weights(model)}
    return found


def without_times(name: str, content: bytes) -> Any:
    """Curves as rows of numbers without the seconds; safetensors are compared as weights."""
    if name.endswith(".safetensors"):
        return None
    if name.endswith(".csv"):
        rows = list(csv.DictReader(io.StringIO(content.decode())))
    elif name.endswith(".jsonl"):
        rows = [json.loads(line) for line in content.splitlines()]
    else:
        return content
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def assert_same(found: dict[str, Any], expected: dict[str, Any], kill: Kill) -> None:
    assert found.keys() == expected.keys(), kill
    for name, value in found.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(value, expected[name], atol=1e-6, rtol=0, msg=lambda text, name=name: f"{kill}: {name}: {text}")
        elif isinstance(value, list):
            for row, other in zip(value, expected[name], strict=True):
                assert {key: number(cell) for key, cell in row.items()} == pytest.approx(
                    {key: number(cell) for key, cell in other.items()}, abs=1e-4, nan_ok=True
                ), f"{kill}: {name}"
        else:
            assert value == expected[name], f"{kill}: {name}"


def number(cell: Any) -> float:
    return float("nan") if cell in (None, "") else float(cell)
