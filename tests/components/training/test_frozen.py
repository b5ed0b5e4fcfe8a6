"""Below adapters a model may be held in bfloat16 (train.frozen_precision): what it computes, what learns, what it leaves behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from micro import micro_model, micro_tokenizer
from peft import get_peft_model
from safetensors.torch import load_file
from short_runs import PARAMETERS, changed, prepared, whole_and_resumed
from transformers import Qwen2ForCausalLM

from rlver.components.policy.load import load_policy, save_policy
from rlver.components.policy.precision import hold_in_bfloat16
from rlver.components.policy.sampler import SampleRequest
from rlver.components.policy.tiny.model import new_model
from rlver.components.policy.transformers_sampler import TransformersSampler
from rlver.components.policy.weights import FILE, plain_weights, write_weights
from rlver.components.settings.settings import load_settings
from rlver.components.training.adapters import inner, load_base, lora, merged
from rlver.components.training.memory import shape_of, training_bytes
from rlver.components.training.ppo import Critic
from rlver.components.training.section import TrainSettings, UpdateParameters

GRPO = changed(PARAMETERS, lora_rank=4, beta=0.1, frozen_precision="native")
BOTH = {
    "grpo": GRPO,
    **{
        f"ppo {critic}": changed(GRPO, algorithm="ppo", critic=critic, group_size=1, critic_learning_rate=0.05)
        for critic in ("shared", "separate")
    },
}
CONTEXT = (5, 9, 12, 7)


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})


def held(model: Any) -> Any:
    hold_in_bfloat16(model)
    return model


def adapted(model: Any) -> Any:
    """The model inside adapters that say something."""
    wrapper = get_peft_model(model, lora(4))
    with torch.no_grad():
        for number, (name, weight) in enumerate(wrapper.named_parameters()):
            if "lora_" in name:
                weight.normal_(0, 0.1, generator=torch.Generator().manual_seed(number))
    return wrapper


def stored_in_bfloat16(model: Any) -> Any:
    """Float32 weights that have no more digits than bfloat16."""
    for weight in model.parameters():
        weight.data = weight.data.bfloat16().float()
    return model


def log_probs(model: Any) -> torch.Tensor:
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        whole: torch.Tensor = model(input_ids=torch.tensor([[*CONTEXT, 3, 8]])).logits.float().log_softmax(-1)
    return whole


def test_of_a_model_stored_in_bfloat16_every_digit_stays() -> None:
    plain, less = adapted(stored_in_bfloat16(micro_model(2, scale=2.0))), adapted(held(stored_in_bfloat16(micro_model(2, scale=2.0))))
    assert {weight.dtype for weight in less.parameters() if weight.ndim > 1 and not weight.requires_grad} == {torch.bfloat16}
    assert torch.equal(log_probs(plain), log_probs(less))
    for model in (plain, less):
        with torch.autocast("cpu", torch.bfloat16):
            model(input_ids=torch.tensor([CONTEXT])).logits.float().log_softmax(-1)[0, -1, 3].backward()
    gradients = [{name: weight.grad for name, weight in model.named_parameters() if weight.requires_grad} for model in (plain, less)]
    assert all(gradient.dtype == torch.float32 and gradient.any() for gradient in gradients[0].values())
    torch.testing.assert_close(gradients[1], gradients[0], atol=0, rtol=0)


def test_of_any_other_only_what_bfloat16_rounds_is_lost() -> None:
    exact, rounded = log_probs(micro_model(2, scale=2.0)), log_probs(held(micro_model(2, scale=2.0)))
    assert 0 < (exact - rounded).abs().mean() < 0.02


@pytest.mark.parametrize("parameters", BOTH.values(), ids=BOTH)
def test_adapters_learn_in_float32_and_what_is_below_stays(parameters: UpdateParameters, tmp_path: Path) -> None:
    run = prepared(tmp_path, parameters)
    before = {name: weight.clone() for name, weight in run.trainer.model.named_parameters()}
    gradients: list[torch.dtype] = []
    for weight in run.trainer.model.parameters():
        if weight.requires_grad:
            weight.register_hook(lambda gradient: gradients.append(gradient.dtype))
    run.trainer.train()
    assert set(gradients) == {torch.float32}
    for name, weight in run.trainer.model.named_parameters():
        learns = "lora_" in name or "value_head" in name
        assert weight.dtype == (torch.float32 if learns or weight.ndim == 1 else torch.bfloat16), name
        assert learns or torch.equal(weight, before[name]), name
    moved = {name for name, weight in run.trainer.model.named_parameters() if not torch.equal(weight, before[name])}
    assert any("lora_" in name for name in moved) and ("critic.value_head.weight" in moved) is (parameters is not GRPO)
    rows = run.steps.rows()
    assert rows[0]["kl"] == pytest.approx(0.0, abs=1e-6) and (rows[1]["kl"] or 0) > 0, "the reference is the model without adapters"
    assert all((row["logprob_gap"] or 0) < 0.05 for row in rows)


@pytest.mark.long
@pytest.mark.parametrize("parameters", BOTH.values(), ids=BOTH)
def test_an_interrupted_run_goes_on(parameters: UpdateParameters, tmp_path: Path) -> None:
    whole, again = whole_and_resumed(tmp_path, parameters)
    torch.testing.assert_close(again.trainer.model.state_dict(), whole.trainer.model.state_dict(), atol=1e-6, rtol=0)


@pytest.mark.long
def test_activations_made_again_give_the_same_gradients(tmp_path: Path) -> None:
    runs = [prepared(tmp_path / str(again), changed(GRPO, gradient_checkpointing=again)) for again in (False, True)]
    for run in runs:
        run.trainer.train()
    assert runs[1].model.is_activation_checkpointing
    once, again = (run.steps.rows()[0] for run in runs)
    assert (once["grad_norm"] or 0) > 0 and again["grad_norm"] == pytest.approx(once["grad_norm"], rel=0.02)


def test_where_the_machine_does_not_multiply_it_all_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": False})
    run = prepared(tmp_path, GRPO)
    assert {weight.dtype for weight in run.trainer.model.parameters()} == {torch.float32} and not run.trainer.args.bf16


@pytest.mark.parametrize("separate", [False, True])
def test_weights_take_half_the_memory_and_what_the_estimate_says(separate: bool) -> None:
    bytes_of: dict[bool, int] = {}
    for in_bfloat16 in (False, True):
        model = micro_model(2)
        shape = shape_of(model.config.to_dict() | {"model_type": "qwen2" if isinstance(model, Qwen2ForCausalLM) else "llama"})
        wrapper = get_peft_model(held(model) if in_bfloat16 else model, lora(4))
        wrapper.critic = Critic(inner(wrapper), separate)
        weights = {id(weight): weight for name, weight in wrapper.named_parameters() if "value_head" not in name}
        bytes_of[in_bfloat16] = sum(weight.nbytes for weight in weights.values() if not weight.requires_grad)
        told = training_bytes(
            shape, on_gpu=True, lora_rank=4, held_in_bfloat16=in_bfloat16, trained_layers=0, with_reference=True, separate_critic=separate,
            copies=0, bfloat16_copies=1, checkpointing=True, rows=2, row_tokens=100, key_value_rows=5, key_value_tokens=100,
        )  # fmt: skip
        assert told["weights"] == sum(weight.nbytes for weight in weights.values())
        assert ("copies that speak" in told) is not in_bfloat16
    assert bytes_of[True] < 0.51 * bytes_of[False]


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_merged_is_the_base_as_it_was_loaded_plus_the_adapters(stored: torch.dtype, tmp_path: Path) -> None:
    save_policy(micro_model(scale=2.0).to(stored), micro_tokenizer(), tmp_path / "base")
    base, _ = load_policy(tmp_path / "base")
    policy, tokenizer = load_base(tmp_path / "base", "native")
    trained = adapted(policy)
    delta = {
        name: module.get_delta_weight("default").detach() for name, module in policy.named_modules() if hasattr(module, "get_delta_weight")
    }
    wanted = {name: weight + delta.get(name.removesuffix(".weight"), 0) for name, weight in base.state_dict().items()}
    assert len(delta) == 7 and all(weight.dtype == torch.float32 for weight in wanted.values())
    whole = merged(trained, tmp_path / "base")
    assert whole.state_dict().keys() == wanted.keys() and all(torch.equal(whole.state_dict()[name], wanted[name]) for name in wanted)
    save_policy(whole, tokenizer, tmp_path / "out", like=tmp_path / "base")
    saved = load_file(tmp_path / "out" / FILE)
    assert saved and all(torch.equal(weight, wanted[name].to(stored)) for name, weight in saved.items())


@pytest.mark.parametrize("head_size", [16, 64])  # two ways of the sampler's attention
def test_samples_come_from_the_model_itself_as_it_is_trained(head_size: int) -> None:
    model = inner(adapted(held(new_model(micro_tokenizer(), 2 * head_size, layers=2, heads=2, max_positions=64, seed=1))))
    sampler = TransformersSampler(model, 1, 1.0, 1.0, rows=2, capacity=64, precision="native")
    sampler.start()
    sample = asyncio.run(sampler.sample(SampleRequest("d", CONTEXT, 3, 12)))
    assert sampler._reads is model
    ids = torch.tensor([[*CONTEXT, *sample.token_ids]])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        own = model(input_ids=ids).logits[0, len(CONTEXT) - 1 : -1].float().log_softmax(-1).gather(-1, ids[0, len(CONTEXT) :, None])[:, 0]
    assert (own - torch.tensor(sample.logprobs)).abs().mean() < 0.02


def test_a_copy_shares_what_is_held_and_follows_the_adapters() -> None:
    model = inner(adapted(held(micro_model(2, scale=2.0))))
    sampler = TransformersSampler(model, 1, 1.0, 1.0, rows=2, capacity=64, apart=True)
    sampler.start()
    own, copied = dict(model.named_parameters()), dict(sampler._reads.named_parameters())
    assert {name for name in own if copied[name] is own[name]} == {name for name in own if own[name].dtype == torch.bfloat16}
    with torch.no_grad():
        [*(weight.add_(0.1) for name, weight in own.items() if "lora_B" in name)]
    assert any(not torch.equal(copied[name], own[name]) for name in own)
    sampler.start()
    assert all(torch.equal(copied[name], own[name]) for name in own)
    assert all(own[name].requires_grad for name in own if "lora_" in name)


def test_a_server_gets_weights_with_the_adapters_in_float32(tmp_path: Path) -> None:
    save_policy(micro_model(scale=2.0), micro_tokenizer(), tmp_path)
    model = inner(adapted(held(micro_model(scale=2.0))))
    write_weights(model, tmp_path)
    expected = plain_weights(inner(adapted(stored_in_bfloat16(micro_model(scale=2.0)))))
    sent = load_file(tmp_path / FILE)
    assert sent.keys() == expected.keys()
    matrices = {name: weight for name, weight in sent.items() if weight.ndim > 1}
    assert all(torch.equal(weight, expected[name].made().to(torch.bfloat16)) for name, weight in matrices.items()), "rounded once"
    read, _ = load_policy(tmp_path)
    torch.testing.assert_close(log_probs(read), log_probs(model), atol=0.1, rtol=0)


def test_native_goes_with_adapters_only_and_its_neutral_value_names_nothing() -> None:
    given = load_settings(Path(__file__).parents[3] / "params.yaml").train.model_dump()
    assert "frozen_precision" not in given
    assert TrainSettings(**given | {"lora_rank": 4, "frozen_precision": "native"}).frozen_precision == "native"
    with pytest.raises(ValueError, match="frozen_precision: native goes with lora_rank above 0"):
        TrainSettings(**given | {"frozen_precision": "native"})
