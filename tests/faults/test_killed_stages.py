"""kill -9 at 30 moments, spread over every stage of the real graph in small: the rerun gives what an undisturbed run gave.

DVC, the shell and the stage die together, as when the machine is switched off. The moment is drawn from the time that the stage took
undisturbed. Before each kill the stage's outputs, and DVC's cache of them, are gone, so that nothing can be restored from there.
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

KILLS = 30
pytestmark = pytest.mark.slow


class Kill(NamedTuple):
    stage: str
    after_s: float  # from the start of `dvc repro`
    said: str  # by the stage until then


def test_after_a_kill_at_any_of_30_moments_a_rerun_gives_the_right_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "project"
    make_whole_project(root)
    seconds = {}
    steps = dvc.plan(root)
    for step in steps:
        began = time.monotonic()
        succeed(root, "repro", "--single-item", step.name)
        seconds[step.name] = time.monotonic() - began
    expected = {step.name: outputs(root, step) for step in steps}
    assert all(expected.values()), "every stage has something to compare"

    random, kills = Random("kill -9 in every stage"), list[Kill]()
    turns = [step for _ in range(KILLS // len(steps) + 1) for step in steps][:KILLS]
    for step in turns:
        kill = killed(root, step, seconds[step.name], random)
        kills.append(kill)
        succeed(root, "repro", "--single-item", step.name)
        assert_same(outputs(root, step), expected[step.name], kill)
        with capsys.disabled():
            print(
                f"\n{len(kills):2d} {kill.stage:22} killed after {kill.after_s:4.1f} of {seconds[step.name]:4.1f} s: right result", end=""
            )
    assert len(kills) == KILLS and {kill.stage for kill in kills} == {step.name for step in steps}
    succeed(root, "repro")
    assert dvc.changed(root) == {}


def killed(root: Path, step: dvc.Stage, usual_s: float, random: Random) -> Kill:
    """Run the stage from nothing and kill it; drawn again where it was over before."""
    while True:
        forget(root, step)
        after_s = random.uniform(0.1, 1.0) * usual_s
        process = start(root, "repro", "--single-item", step.name)
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
