"""A project folder small enough to train in seconds: its parameters, overlays and personas."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import people
from ruamel.yaml import YAML

from rlver.components.domain.files import write_jsonl
from rlver.components.policy.load import load_policy
from rlver.tasks.stages import base

REPOSITORY = Path(__file__).parents[1]
SMALL: dict[str, dict[str, Any]] = {
    "simulator": {"max_turns": 3},
    "base": {"hidden_size": 16, "layers": 1, "heads": 2, "vocab_size": 500, "dialogues": 12, "world_rounds": 1, "batch_tokens": 2000,
             "single_replies": 20, "max_seconds": 0},
    "policy": {"thinking": False, "max_reply_tokens": 8, "max_context_tokens": 900},
    "train": {"steps": 2, "personas_per_step": 2, "group_size": 4, "rows_per_forward": 4, "save_every": 1, "evaluate_every": 1,
              "evaluation_personas": 2, "warmup_steps": 0, "learning_rate": 0.01, "max_repeat_rate": 1.0, "max_cut_off_rate": 1.0},
    "evaluation": {"concurrency": 4, "repeats": 1},
}  # fmt: skip


def make_project(root: Path, **train: Any) -> None:
    """params.yaml with the numbers of `train` on top of SMALL, variants `base` and `v`, train.jsonl and test.jsonl."""
    values = YAML(typ="safe").load((REPOSITORY / "params.yaml").read_text(encoding="utf-8"))
    for section, changes in SMALL.items():
        values[section] |= changes
    values["train"] |= train
    YAML(typ="safe").dump(values, root / "params.yaml")
    (root / "params").mkdir()
    for name in ("base", "v"):
        (root / "params" / f"{name}.yaml").write_text("policy: {thinking: false}\n")
    for name, personas in zip(("train", "test"), people(), strict=True):
        write_jsonl(root / f"{name}.jsonl", [persona.model_dump(mode="json") for persona in personas])


@cache
def _base() -> tempfile.TemporaryDirectory[str]:
    """A project with the base of SMALL, made once in this process: whatever is trained from it, it is the same."""
    folder = tempfile.TemporaryDirectory(prefix="rlver-base-")
    make_project(Path(folder.name))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder.name)
        assert base.main(["--personas", "train.jsonl", "--out", "models/base", "--metrics", "metrics/base.json"]) == 0
    return folder


def make_base(root: Path) -> None:
    """models/base and metrics/base.json of a project whose parameters are those of SMALL but for the section train."""
    for name in ("models", "metrics"):
        shutil.copytree(Path(_base().name) / name, root / name, dirs_exist_ok=True)


def train_arguments(name: str, variant: str = "v") -> list[str]:
    """Options of the stage `train`, with outputs and scratch folder of that name."""
    places = ["--out", f"models/{name}", "--logs", f"logs/{name}", "--scratch", f"scratch/{name}"]
    return ["--variant", variant, "--personas", "train.jsonl", "--base", "models/base", *places]


def start_training(root: Path, environment: dict[str, str], name: str, variant: str = "v") -> subprocess.Popen[bytes]:
    """The stage `train` in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "rlver.tasks.stages.train", *train_arguments(name, variant)],
        cwd=root,
        env={**environment, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def weights(path: Path) -> torch.Tensor:
    """All weights of the policy saved at `path`, as one vector."""
    return torch.cat([weight.detach().flatten() for weight in load_policy(path)[0].parameters()])
