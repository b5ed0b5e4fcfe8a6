"""train.checkpoint_optimizer: false — what a checkpoint without AdamW's moments holds, and how a training goes on from it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from short_runs import PARAMETERS, StopAtSave, changed, prepared

from rlver.components.training.section import UpdateParameters

# The learning rate differs from step to step: 0 at the first, then on its way down.
GRPO = changed(PARAMETERS, checkpoint_optimizer=False, learning_rate_schedule="linear", warmup_steps=1, steps=4, personas_per_step=1)
PPO = changed(GRPO, algorithm="ppo", critic="shared", personas_per_step=2, group_size=1, critic_learning_rate=0.05, steps=2)
STOPPED = 1  # after this step


@pytest.mark.parametrize("parameters", [GRPO, PPO], ids=["grpo", "ppo"])
def test_a_run_goes_on_from_its_step_with_the_learning_rate_of_then_and_moments_from_zero(
    parameters: UpdateParameters, tmp_path: Path
) -> None:
    whole = prepared(tmp_path / "whole", parameters)
    whole.trainer.train()
    cut = tmp_path / "cut"
    with pytest.raises(KeyboardInterrupt):
        prepared(cut, parameters, callbacks=[StopAtSave(STOPPED)]).trainer.train()
    checkpoint = cut / "checkpoints" / f"checkpoint-{STOPPED}"
    saved = torch.load(checkpoint / "optimizer.pt", weights_only=True)
    assert saved["state"] == {} and saved["param_groups"][0]["lr"] > 0
    assert {"scheduler.pt", "rng_state.pth", "trainer_state.json"} < {file.name for file in checkpoint.iterdir()}

    again = prepared(cut, parameters, callbacks=[StopAtSave(STOPPED + 1)])
    again.steps.keep_until(STOPPED)
    with pytest.raises(KeyboardInterrupt):
        again.trainer.train(resume_from_checkpoint=str(checkpoint))
    assert [one.dialogue for one in again.rollouts[0]] == [one.dialogue for one in whole.rollouts[STOPPED]], "weights and order are of then"
    assert again.steps.rows()[STOPPED]["learning_rate"] == whole.steps.rows()[STOPPED]["learning_rate"]
    before, after = prepared(tmp_path / "before", parameters), again.weights
    before.trainer._load_from_checkpoint(str(checkpoint))
    moved = (after - before.weights).abs()
    rates = {group["lr"] for group in saved["param_groups"]}  # the first step of AdamW moves each weight by the whole rate
    assert len(rates) == (2 if parameters is PPO else 1)
    assert moved.max().item() == pytest.approx(max(rates), rel=0.01)
    assert moved[moved > 0].median().item() == pytest.approx(min(rates), rel=0.01)


def test_with_the_moments_a_step_is_not_the_first_of_an_optimizer(tmp_path: Path) -> None:
    """What the test above measures tells the two apart."""
    parameters = changed(GRPO, checkpoint_optimizer=True, warmup_steps=0)
    run = prepared(tmp_path, parameters, callbacks=[StopAtSave(3)])
    with pytest.raises(KeyboardInterrupt):
        run.trainer.train()
    before = prepared(tmp_path / "before", parameters)
    before.trainer._load_from_checkpoint(str(tmp_path / "checkpoints" / "checkpoint-2"))
    saved = torch.load(tmp_path / "checkpoints" / "checkpoint-2" / "optimizer.pt", weights_only=True)
    moved = (run.weights - before.weights).abs()
    assert saved["state"] and moved[moved > 0].median().item() < 0.9 * saved["param_groups"][0]["lr"]


@pytest.mark.parametrize("kept", [True, False])
def test_the_moments_are_two_thirds_of_a_checkpoint(kept: bool, tmp_path: Path) -> None:
    run = prepared(tmp_path, changed(GRPO, checkpoint_optimizer=kept, steps=1))
    run.trainer.train()
    checkpoint = tmp_path / "checkpoints" / "checkpoint-1"
    weights = 4 * sum(weight.numel() for weight in run.model.parameters())
    moments = (checkpoint / "optimizer.pt").stat().st_size
    assert (checkpoint / "model.safetensors").stat().st_size == pytest.approx(weights, rel=0.1)
    assert moments == pytest.approx(2 * weights, rel=0.1) if kept else moments < 10_000


def test_the_training_itself_is_the_same(tmp_path: Path) -> None:
    weights = []
    for kept in (True, False):
        run = prepared(tmp_path / str(kept), changed(GRPO, checkpoint_optimizer=kept))
        run.trainer.train()
        weights.append(run.weights)
    torch.testing.assert_close(*weights, atol=1e-6, rtol=0)
