"""kill -9 at any moment of `train`, five times over, and the result is that of a run nobody touched."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from random import Random

import pytest
import torch
from small_project import make_base, make_project, start_training, weights

from rlver.components.training.curves import CurveFile


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_a_run_killed_at_five_moments_ends_like_one_that_was_not(algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_project(tmp_path, algorithm=algorithm, steps=30, save_every=2, evaluate_every=5)
    monkeypatch.chdir(tmp_path)
    make_base(tmp_path)

    def start(name: str) -> subprocess.Popen[bytes]:
        return start_training(tmp_path, {**os.environ, "HF_HUB_OFFLINE": "1"}, name)

    assert start("whole").wait() == 0
    random, kills = Random(f"kill/{algorithm}"), 0
    while kills < 5:
        process = start("killed")
        began, seen = time.monotonic(), _steps(tmp_path)
        while process.poll() is None and _steps(tmp_path) <= seen and time.monotonic() - began < 120:
            time.sleep(0.02)  # until it has done something new
        time.sleep(random.uniform(0, 1.0))
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    assert kills == 5, "the run was over before it could be killed five times: give it more steps"
    assert start("killed").wait() == 0

    torch.testing.assert_close(weights(tmp_path / "models" / "killed"), weights(tmp_path / "models" / "whole"), atol=1e-6, rtol=0)
    for curve in ("train", "evaluation"):
        killed, whole = (CurveFile(tmp_path / "logs" / name / curve).rows() for name in ("killed", "whole"))
        assert [row["step"] for row in killed] == [row["step"] for row in whole], "no step twice, none missing"
        for row, expected in zip(killed, whole, strict=True):
            row.pop("seconds", None), expected.pop("seconds", None)
            assert row == pytest.approx(expected, abs=1e-4, nan_ok=True)


def _steps(root: Path) -> int:
    """The last step that any run under scratch/killed has recorded."""
    rows = [row for path in root.glob("scratch/killed/*/curves/train.jsonl") for row in CurveFile(path.with_suffix("")).rows()]
    return int(max((row["step"] for row in rows), default=0))
