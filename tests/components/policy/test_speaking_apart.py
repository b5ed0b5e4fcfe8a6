"""A policy that speaks with a copy of its weights, which learn meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import torch

from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.policy.transformers_sampler import TransformersSampler


def said(sampler: TransformersSampler) -> Sample:
    return asyncio.run(sampler.sample(SampleRequest("d", tuple(range(20, 40)), 7, 9)))


def test_it_has_the_weights_of_its_start_while_they_learn(model: Any) -> None:
    def sampler(apart: bool) -> TransformersSampler:
        made = TransformersSampler(model, model.config.eos_token_id, 1.0, 1.0, rows=8, capacity=160, apart=apart)
        made.start()
        return made

    speaks = sampler(apart=True)
    before = said(speaks)
    speaks.forget("d")
    kept = [weight.detach().clone() for weight in model.parameters()]
    try:
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(3)
        assert said(speaks) == before
        speaks.start()
        after = said(speaks)
        assert after.logprobs != before.logprobs and after == said(sampler(apart=False))
    finally:
        with torch.no_grad():
            for weight, old in zip(model.parameters(), kept, strict=True):
                weight.copy_(old)
