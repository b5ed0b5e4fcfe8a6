"""LoRA, and activations made again: only the adapters train, the KL is to the policy without them, and the merged policy is an ordinary one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from micro import micro_model
from short_runs import PARAMETERS, StopAtSave, prepared

from rlver.components.training.token_scores import inner, merged

LORA = replace(PARAMETERS, lora_rank=4, beta=0.1)


def test_only_adapters_train_and_merge_into_a_policy_that_says_the_same(tmp_path: Path) -> None:
    run = prepared(tmp_path, LORA)
    run.trainer.train()
    trained = run.trainer.model
    moved = {name for name, weight in trained.named_parameters() if weight.requires_grad}
    assert moved and all("lora_" in name for name in moved)
    rows = run.steps.rows()
    assert rows[0]["kl"] == pytest.approx(0.0, abs=1e-6) and rows[1]["kl"] > 0
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        adapted = inner(trained)(ids).logits
        policy = merged(trained)
        torch.testing.assert_close(policy(ids).logits, adapted, atol=1e-4, rtol=1e-4)
    assert not any("lora" in name for name in policy.state_dict())
    assert policy.state_dict().keys() == micro_model().state_dict().keys()
    assert not torch.allclose(adapted, micro_model(scale=2.0)(ids).logits, atol=1e-4)


def test_an_interrupted_run_goes_on_with_its_adapters(tmp_path: Path) -> None:
    whole = prepared(tmp_path / "whole", LORA)
    whole.trainer.train()
    with pytest.raises(KeyboardInterrupt):
        prepared(tmp_path / "cut", LORA, callbacks=[StopAtSave(1)]).trainer.train()
    again = prepared(tmp_path / "cut", LORA)
    again.trainer.train(resume_from_checkpoint=str(tmp_path / "cut" / "checkpoints" / "checkpoint-1"))
    torch.testing.assert_close(again.weights, whole.weights, atol=1e-6, rtol=0)


def test_activations_made_again_change_nothing(tmp_path: Path) -> None:
    runs = [prepared(tmp_path / str(again), replace(PARAMETERS, gradient_checkpointing=again)) for again in (False, True)]
    for run in runs:
        run.trainer.train()
    assert runs[1].model.is_activation_checkpointing
    torch.testing.assert_close(runs[1].weights, runs[0].weights, atol=1e-4, rtol=0)
