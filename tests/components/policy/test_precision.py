"""Sampling and training in bfloat16, here whatever the processor: what it samples, learns and leaves behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import torch
from micro import micro_model
from short_runs import PARAMETERS, changed, prepared

from rlver.components.policy import precision
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.policy.transformers_sampler import TransformersSampler

CONTEXT = (5, 9, 12, 7)


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})


def _sampled(sampler: TransformersSampler) -> Sample:
    sampler.start()
    return asyncio.run(sampler.sample(SampleRequest("d", CONTEXT, 3, 12)))


@pytest.mark.parametrize(
    ("asked", "able_to", "expected"),
    [("float32", True, False), ("native", True, True), ("native", False, False)],
)
def test_native_means_what_the_processor_multiplies_itself(
    monkeypatch: pytest.MonkeyPatch, asked: str, able_to: bool, expected: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": able_to, "avx512_f": True})
    assert precision.computes_in_bfloat16(asked) is expected


@pytest.mark.usefixtures("able")
def test_samples_are_drawn_from_a_copy_that_follows_what_was_learned() -> None:
    """Log-probabilities are near the model's own, and after a change of the weights near the changed model's."""
    model = micro_model(scale=2.0)
    sampler = TransformersSampler(model, 1, 1.0, 1.0, rows=2, capacity=64, precision="native")
    for change in (0.0, 0.3):
        with torch.no_grad():
            model.lm_head.weight[: model.config.vocab_size // 2] += change
        sample = _sampled(sampler)
        ids = torch.tensor([[*CONTEXT, *sample.token_ids]])
        with torch.no_grad():
            exact = model(input_ids=ids).logits[0, len(CONTEXT) - 1 : -1].log_softmax(-1).gather(-1, ids[0, len(CONTEXT) :, None])[:, 0]
        assert 0 < (exact - torch.tensor(sample.logprobs)).abs().mean() < 0.05
    assert all(weight.dtype == torch.float32 and weight.requires_grad for weight in model.parameters())


@pytest.mark.usefixtures("able")
def test_training_in_bfloat16_learns_float32_weights_from_what_was_sampled(tmp_path: Path) -> None:
    run = prepared(tmp_path, changed(PARAMETERS, precision="native"))
    before = run.weights.clone()
    run.trainer.train()
    assert run.weights.dtype == torch.float32 and not torch.equal(run.weights, before)
    assert all(0 < row["logprob_gap"] < 0.05 and row["clip_fraction"] < 0.05 for row in run.steps.rows())
