"""LoRA, and activations made again: only the adapters train, the KL is to the policy without them, and the merged policy is an ordinary one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from micro import micro_model
from safetensors.torch import save_file
from short_runs import PARAMETERS, StopAtSave, changed, prepared, whole_and_resumed

from rlver.components.training.adapters import inner, merged
from rlver.components.training.section import UpdateParameters

LORA = changed(PARAMETERS, lora_rank=4, beta=0.1)
WITH_CRITIC = {
    critic: changed(LORA, algorithm="ppo", critic=critic, group_size=1, critic_learning_rate=0.05) for critic in ("shared", "separate")
}


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
        policy = merged(trained, tmp_path)
        torch.testing.assert_close(policy(ids).logits, adapted, atol=1e-4, rtol=1e-4)
    assert not any("lora" in name for name in policy.state_dict())
    assert policy.state_dict().keys() == micro_model().state_dict().keys()
    assert not torch.allclose(adapted, micro_model(scale=2.0)(ids).logits, atol=1e-4)


@pytest.mark.parametrize("parameters", [LORA, *WITH_CRITIC.values()], ids=["grpo", "ppo shared", "ppo separate"])
def test_an_interrupted_run_goes_on_with_its_adapters(parameters: UpdateParameters, tmp_path: Path) -> None:
    whole, again = whole_and_resumed(tmp_path, parameters)
    trained = {name: weight for name, weight in whole.trainer.model.state_dict().items() if "base_layer" not in name}
    assert parameters is LORA or (trained["critic.value_head.weight"].any() and trained["critic.plane"].all())
    torch.testing.assert_close({name: again.trainer.model.state_dict()[name] for name in trained}, trained, atol=1e-6, rtol=0)


@pytest.mark.parametrize("critic", WITH_CRITIC)
def test_of_policy_and_critic_only_adapters_and_the_value_head_train(critic: str, tmp_path: Path) -> None:
    run = prepared(tmp_path, WITH_CRITIC[critic])
    before = {name: weight.clone() for name, weight in run.trainer.model.named_parameters()}
    run.trainer.train()
    moved = {name for name, weight in run.trainer.model.named_parameters() if not torch.equal(weight, before[name])}
    assert {"critic.value_head.weight", "critic.value_head.bias"} < moved
    assert all("lora_" in name for name in moved if not name.startswith("critic.value_head."))
    assert any(name.startswith("critic.trunk.") for name in moved) is (critic == "separate")
    assert merged(run.trainer.model, tmp_path).state_dict().keys() == micro_model().state_dict().keys()


@pytest.mark.parametrize("how", ["missing", "damaged", "of another training"])
def test_a_checkpoint_without_its_critic_is_not_gone_on_with(how: str, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        prepared(tmp_path, WITH_CRITIC["shared"], callbacks=[StopAtSave(1)]).trainer.train()
    checkpoint = tmp_path / "checkpoints" / "checkpoint-1"
    file = checkpoint / "critic.safetensors"
    if how == "missing":
        file.unlink()
    elif how == "damaged":
        file.write_bytes(b"not a tensor")
    else:
        save_file({"value_head.weight": torch.zeros(1, 2)}, file)
    with pytest.raises(ValueError, match=r"critic\.safetensors.*; delete this checkpoint"):
        prepared(tmp_path, WITH_CRITIC["shared"]).trainer.train(resume_from_checkpoint=str(checkpoint))


def test_activations_made_again_change_nothing(tmp_path: Path) -> None:
    runs = [prepared(tmp_path / str(again), changed(PARAMETERS, gradient_checkpointing=again)) for again in (False, True)]
    for run in runs:
        run.trainer.train()
    assert runs[1].model.is_activation_checkpointing
    torch.testing.assert_close(runs[1].weights, runs[0].weights, atol=1e-4, rtol=0)
