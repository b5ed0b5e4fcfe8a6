"""Small policies and learned appraisers, whole, to be broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from micro import micro_model, micro_tokenizer
from safetensors.torch import load_file, save_file

WEIGHTS = "model.safetensors"
UP = "model.layers.0.mlp.up_proj.weight"
EMBEDDINGS = "model.embed_tokens.weight"


def policy_in(folder: Path, layers: int = 1) -> Path:
    from rlver.components.policy.load import save_policy

    save_policy(micro_model(layers=layers, scale=6.0), micro_tokenizer(), folder)
    return folder


def with_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> Path:
    """The policy's weights after `change`."""
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    return folder


def with_config(folder: Path, **values: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    return folder


def without_a_tensor(folder: Path) -> Path:
    return with_tensors(folder, lambda tensors: tensors.pop(UP))


def with_overflow(folder: Path) -> Path:
    """Every weight is finite, and no logit is."""
    return with_tensors(folder, lambda tensors: (tensors[EMBEDDINGS].mul_(1e10), tensors["model.norm.weight"].fill_(1e38)))


def appraiser_in(folder: Path, worth: float = 0.5) -> Path:
    """A learned appraiser with as little in it as there can be: sixteen buckets, each of this worth, and one tree."""
    from rlver.components.users.distilled import features as columns
    from rlver.components.users.distilled.appraiser import Distilled
    from rlver.components.users.distilled.folder import write_folder
    from rlver.components.users.distilled.guard import PAIR_BITS, Guard, GuardLimits
    from rlver.components.users.distilled.heads import Calibration, Head, Trees

    def head(targets: int) -> Head:
        return Head(np.full((1, 16, targets), worth, np.float16), np.zeros((1, targets), np.float32))

    def ints(*values: int) -> Any:
        return np.array(values, np.int32)

    tree = Trees(ints(0, 0, 0), np.array([1.0, 0, 0]), ints(1, 1, 2), ints(2, 1, 2), np.array([0.0, -3, 4]), ints(0), depth=1, baseline=0.5)
    curve = Calibration((-3, 0, 4), np.array([-1.0, 1]), np.array([-3.0, 4]), np.array([0.1, 0.9]), np.array([2.0, 2]))
    pairs = np.full((1 << PAIR_BITS) // 8, 255, np.uint8)
    model = Distilled(
        digest="", reply_head=head(2), user_head=head(3), trees=tree, calibration=curve,
        guard=Guard(pairs, pairs, GuardLimits(200, 0.1, 0.1, 1.0, 0.1, 0.9)), usual=np.zeros(len(columns.names(1))),
    )  # fmt: skip
    digest = write_folder(model, folder, {})
    figure = {"value": 0.5, "ci95": [0.4, 0.6]}
    split = {
        "dialogues": 3,
        "turns": 9,
        "teacher_forced": {"expected": {"r": figure}, "change": {"sign_accuracy": figure}},
        "free_running": {"expected": {"r": figure}, "dialogue_mean_r": figure, "final_r": figure, "final_mae": figure},
    }
    origin = {"dialogues": 9, "turns": 27, "personas": 3, "policies": ["fair"], "users": ["scripted"]}
    card = {"appraiser": f"distilled {digest}", "origin": origin, "splits": {"locked": split}}
    (folder / "fidelity.json").write_text(json.dumps(card))
    return folder


def appraise_once(folder: Path) -> int:
    """The change that the appraiser in `folder` gives one plain reply."""
    from rlver.components.domain.transcript import Turn
    from rlver.components.users.distilled.appraiser import appraisals
    from rlver.components.users.distilled.features import Known
    from rlver.components.users.distilled.folder import read_folder

    turn = Turn(user="My sister left without a word.", assistant="I am so sorry, that sounds hard.")
    return appraisals(read_folder(folder), Known(), [turn])[0].change
