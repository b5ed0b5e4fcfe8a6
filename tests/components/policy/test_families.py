"""Models of every family with plain, full attention: what is sampled has the log-probabilities of the model, and those are trained."""

from __future__ import annotations

import asyncio
from types import MethodType
from typing import Any

import pytest
import torch
import transformers
from accelerate.utils.operations import convert_outputs_to_fp32

from rlver.components.policy import transformers_sampler
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.policy.transformers_sampler import TransformersSampler
from rlver.components.training.token_scores import add_token_scores

SIZES = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
PLAIN = {
    "Llama": {},
    "Llama, untied": {"tie_word_embeddings": False},
    "Llama, heads of 64": {"head_dim": 64},
    "Llama, one key for all": {"num_key_value_heads": 1},
    "Qwen2": {},
    "Qwen2, tied": {"tie_word_embeddings": True},
    "Qwen3": {"head_dim": 16},
    "Mistral": {"sliding_window": None},
    "SmolLM3": {"no_rope_layer_interval": 2},
    "Olmo2": {},
    "Olmo3": {"sliding_window": 4096, "layer_types": ["sliding_attention", "full_attention"]},
    "Gemma": {"head_dim": 16},
    "Gemma3Text": {"head_dim": 16, "sliding_window": 4096, "query_pre_attn_scalar": 16},
    "Phi3": {},
}
REFUSED = {
    "Gemma2": ({"head_dim": 16}, "gemma2: "),
    "Mistral": ({"sliding_window": 32}, "mistral: "),
    "Gemma3Text": ({"head_dim": 16, "sliding_window": 32}, "gemma3_text: its attention ends after 32 tokens"),
    "Cohere": ({"logit_scale": 0.06}, "cohere: its attention or its logits are not the plain ones"),
    "GptOss": ({"head_dim": 16, "num_local_experts": 4}, "gpt_oss: "),
    "Mamba": ({"state_size": 8}, "mamba: "),
}


def made(family: str, extra: dict[str, Any]) -> Any:
    name = family.split(",")[0]
    torch.manual_seed(5)
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **extra})
    model = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.15)  # as they come, all next tokens are nearly as likely
    return model.eval()


def sampler_of(model: Any) -> TransformersSampler:
    sampler = TransformersSampler(model, 2, 0.8, 1.0, 4, 128)
    sampler.start()
    return sampler


async def talks(sampler: TransformersSampler) -> list[tuple[tuple[int, ...], Sample]]:
    async def one(number: int) -> list[tuple[tuple[int, ...], Sample]]:
        context, said = tuple(range(3, 9 + 4 * number)), []
        for turn in range(3):
            sample = await sampler.sample(SampleRequest(f"d{number}", context, 10 * number + turn, 6))
            said.append((context, sample))
            context = (*context, *sample.token_ids, 2, 11 + number, 12, 13)
        return said

    return [pair for said in await asyncio.gather(*map(one, range(4))) for pair in said]


@pytest.mark.parametrize("family", PLAIN)
def test_what_is_sampled_is_what_the_model_says_and_what_is_trained(family: str) -> None:
    model = made(family, PLAIN[family])
    said = asyncio.run(talks(sampler_of(model)))
    assert len({sample.token_ids for _, sample in said}) > 4
    add_token_scores(model, 0.8)
    for context, sample in said:
        ids = torch.tensor([[*context, *sample.token_ids]])
        spoken = (torch.arange(ids.shape[1]) >= len(context)).long()[None]
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, len(context) - 1 : -1] / 0.8
            trained = model(input_ids=ids, attention_mask=torch.ones_like(ids), policy_mask=spoken).log_probs[0][spoken[0, 1:].bool()]
        expected = logits.log_softmax(-1)[torch.arange(len(sample.token_ids)), torch.tensor(sample.token_ids)]
        torch.testing.assert_close(torch.tensor(sample.logprobs), expected, atol=2e-4, rtol=0)
        torch.testing.assert_close(trained, expected, atol=2e-4, rtol=0)


def test_a_copy_that_only_rounds_is_not_taken_for_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformers_sampler, "computes_in_bfloat16", lambda _: True)
    model = made("Llama", {})
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(2)  # its logits are 2 to 5% off in bfloat16, as those of a model that was trained
    sampler_of(model)
    monkeypatch.setattr(transformers_sampler, "_ROUNDED", 0.02)
    with pytest.raises(ValueError, match="not the plain ones"):
        sampler_of(model)


@pytest.mark.parametrize("family", REFUSED)
def test_a_family_that_cannot_be_sampled_here_is_refused_by_name(family: str) -> None:
    extra, message = REFUSED[family]
    with pytest.raises(ValueError, match="vllm") as error:
        sampler_of(made(family, extra))
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_a_trainer_that_wraps_the_model_in_bfloat16_does_not_make_it_another_model() -> None:
    """As accelerate does with bf16=True, on a CPU; the limit is tightened, since a model of two layers rounds less than one of thirty."""
    model = made("Qwen2", {})
    wrapped = torch.autocast("cpu", dtype=torch.bfloat16)(model.forward.__func__)
    model.forward = MethodType(convert_outputs_to_fp32(wrapped), model)
    sampler = TransformersSampler(model, 2, 0.8, 1.0, 4, 128)
    sampler._must_read_as_the_model_does(1e-5)
