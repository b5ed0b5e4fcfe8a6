"""kill -9 at any moment of `train`, five times over, and the result is that of a run nobody touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from fakes import people
from ruamel.yaml import YAML

from components.files import write_jsonl
from components.policy.load import load_policy
from components.recording import CurveFile
from tasks.stages import base

SMALL: dict[str, dict[str, Any]] = {
    "simulator": {"max_turns": 3},
    "base": {"hidden_size": 16, "layers": 1, "heads": 2, "vocab_size": 500, "dialogues": 12, "world_rounds": 1, "batch_tokens": 4000,
             "single_replies": 20, "max_seconds": 0},
    "policy": {"thinking": False, "max_reply_tokens": 8, "max_context_tokens": 900},
    "train": {"steps": 30, "personas_per_step": 2, "group_size": 4, "rows_per_forward": 4, "save_every": 2, "evaluate_every": 5,
              "evaluation_personas": 2, "warmup_steps": 0, "learning_rate": 0.01},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_a_run_killed_at_five_moments_ends_like_one_that_was_not(
    algorithm: str, tmp_path: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = YAML(typ="safe").load((repository_root / "params.yaml").read_text(encoding="utf-8"))
    for section, changes in SMALL.items():
        values[section] |= changes
    values["train"]["algorithm"] = algorithm
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    (tmp_path / "params").mkdir()
    for name in ("base", "v"):
        (tmp_path / "params" / f"{name}.yaml").write_text("policy: {thinking: false}\n")
    write_jsonl(tmp_path / "train.jsonl", [persona.model_dump(mode="json") for persona in people()[0]])
    monkeypatch.chdir(tmp_path)
    assert base.main(["--personas", "train.jsonl", "--out", "models/base", "--metrics", "metrics/base.json"]) == 0

    environment = {**os.environ, "PYTHONPATH": str(repository_root), "HF_HUB_OFFLINE": "1"}

    def start(name: str) -> subprocess.Popen[bytes]:
        places = ["--out", f"models/{name}", "--logs", f"logs/{name}", "--scratch", f"scratch/{name}"]
        command = [
            sys.executable,
            "-m",
            "tasks.stages.train",
            "--variant",
            "v",
            "--personas",
            "train.jsonl",
            "--base",
            "models/base",
            *places,
        ]
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)

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

    torch.testing.assert_close(_weights(tmp_path / "models" / "killed"), _weights(tmp_path / "models" / "whole"), atol=1e-6, rtol=0)
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


def _weights(path: Path) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in load_policy(path)[0].parameters()])
