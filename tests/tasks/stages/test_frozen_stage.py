"""The stage `train` on a base that is held in bfloat16: what it writes is the base as it was, with the adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_project import make_base, make_project, train_arguments

from rlver.components.policy.precision import hold_in_bfloat16
from rlver.components.training import adapters as of_training
from rlver.tasks.stages import train

ALGORITHMS: dict[str, dict[str, Any]] = {"grpo": {}, "ppo separate": {"algorithm": "ppo", "critic": "separate"}}


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_what_is_written_is_the_base_with_the_adapters_of_the_last_step(
    algorithm: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Any] = []

    def hold(model: Any) -> None:
        hold_in_bfloat16(model)
        held.append(model)

    make_project(tmp_path, lora_rank=4, frozen_precision="native", gradient_checkpointing=True, **algorithm)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    make_base(tmp_path)
    monkeypatch.setattr(of_training, "hold_in_bfloat16", hold)
    assert train.main(train_arguments("v")) == 0
    assert len(held) == 1
    [checkpoint] = (tmp_path / "scratch" / "v").glob("*/checkpoints/checkpoint-2")
    before, after = (load_file(tmp_path / "models" / name / "model.safetensors") for name in ("base", "v"))
    adapters = {
        name.removeprefix("base_model.model."): weight for name, weight in load_file(checkpoint / "adapter_model.safetensors").items()
    }
    assert before.keys() == after.keys() and adapters
    for name, weight in before.items():
        down, up = (adapters.get(name.replace(".weight", f".lora_{side}.weight")) for side in "AB")
        wanted = weight if down is None or up is None else weight + up @ down * 2.0
        assert weight.dtype == after[name].dtype == torch.float32
        torch.testing.assert_close(after[name], wanted, atol=1e-7, rtol=0)
        assert torch.equal(after[name], weight) is (down is None)
