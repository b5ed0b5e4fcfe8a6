"""A training in two processes learns what one process with the same global batch learns."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from ruamel.yaml import YAML
from small_project import make_base, make_project, start_training, weights

from rlver.components.training.curves import CurveFile


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_two_processes_give_the_loss_per_step_of_one(algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_project(tmp_path, algorithm=algorithm, steps=3, save_every=3, evaluate_every=3, rows_per_forward=2)
    monkeypatch.chdir(tmp_path)
    make_base(tmp_path)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    assert start_training(tmp_path, environment, "one").wait() == 0
    values = YAML(typ="safe").load((tmp_path / "params.yaml").read_text(encoding="utf-8"))
    values["train"]["processes"] = 2
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    assert start_training(tmp_path, environment, "two").wait() == 0

    for curve in ("train", "evaluation"):
        one, two = (CurveFile(tmp_path / "logs" / name / curve).rows() for name in ("one", "two"))
        assert [row["step"] for row in two] == [row["step"] for row in one]
        for row, expected in zip(two, one, strict=True):
            same = ["n", "emotion_mean", "turns_mean", "reply_tokens"]
            if curve == "train":
                same += ["loss", "grad_norm", "entropy", "learning_share", "logprob_gap"]
                same += ["value_loss", "value_mean", "explained_variance"] if algorithm == "ppo" else []
            for name in same:
                assert row[name] == pytest.approx(expected[name], abs=1e-4, rel=1e-4), (curve, row["step"], name)
    torch.testing.assert_close(
        weights(tmp_path / "models" / "two"), weights(tmp_path / "models" / "one"), atol=1e-3, rtol=0
    )  # Adam makes a tenth of a step of the rounding of a gradient near 0

    (of_the_second,) = tmp_path.glob("scratch/two/*/curves-1/evaluation.jsonl")
    CurveFile(of_the_second.with_suffix("")).keep_until(0)  # as if it had been killed before it noted the last check
    assert start_training(tmp_path, environment, "two").wait(timeout=300) == 0
    assert [row["step"] for row in CurveFile(of_the_second.with_suffix("")).rows()] == [0, 3]
