"""Do a policy server and the trainer's model say the same? Before new weights, after them, and for requests under way meanwhile.

What the server sampled is scored again by the model in this process with the weights that the server names: right weights give the same
log-probabilities, up to rounding, and any others do not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from rlver.components.policy.load import load_policy
from rlver.components.policy.policy_server import PolicyServer, answer
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.policy.vllm_sampler import GENERATE, VllmSampler, parse_sample
from rlver.components.policy.weights import version_of, write_weights

REQUESTS = 16
NOISE = 0.1  # of the second weights, in standard deviations of each tensor: enough to tell them from the first


@dataclass(frozen=True)
class ServerAgreement:
    """Differences of log-probabilities in nats per sampled token; `other` is the mean for the weights that were not meant."""

    tokens: int
    mean: float
    max: float
    other: float
    greedy_same: int  # of REQUESTS greedy turns: the same tokens
    under_way: int  # turns that were under way when new weights came and ended with the old ones
    after: int  # turns that had the new ones

    def __str__(self) -> str:
        return (
            f"{self.tokens} tokens differ by {self.mean:.1e} nats on average, {self.max:.1e} at most ({self.other:.2f} with the wrong "
            f"weights); {self.greedy_same} of {REQUESTS} greedy turns are the same; {self.under_way} turns that were under way when new "
            f"weights came ended with the old ones, {self.after} later turns had the new ones"
        )


def agreement(url: str, key: str | None, folder: Path, scratch: Path) -> ServerAgreement:
    """Compare the server at `url`, which wants `key`, with the policy saved in `folder`, and leave the server with its weights.

    `scratch` must be seen by both; a second set of weights is written there. Raises PolicyServerUnavailable and PolicyServerFailed.
    """
    model, tokenizer = load_policy(folder)
    model.eval()
    folder = folder.resolve()
    requests = [_request(number, tokenizer.vocab_size) for number in range(REQUESTS)]
    try:
        greedy, _ = asyncio.run(_said(VllmSampler(url, tokenizer.eos_token_id, 0.0, 1.0, REQUESTS, lambda: folder, key), requests))
        same = sum(_greedy(model, request) == sample.token_ids for request, (sample, _) in zip(requests, greedy, strict=True))
        with _other_weights(model):
            second = write_weights(model, scratch.resolve())
            sampler = VllmSampler(url, tokenizer.eos_token_id, 1.0, 1.0, 2 * REQUESTS, lambda: folder, key)
            said, done = asyncio.run(_said(sampler, requests, second))
            gaps_second = [_gaps(model, request, sample) for request, (sample, _) in zip(requests * 2, said, strict=True)]
        gaps_first = [_gaps(model, request, sample) for request, (sample, _) in zip(requests * 2, said, strict=True)]
    finally:
        PolicyServer(url, key).take(folder)
    right, wrong, after = [], [], 0
    for (_, version), first_T, second_T in zip(said, gaps_first, gaps_second, strict=True):
        is_second = version == version_of(second)
        after += is_second
        right += second_T if is_second else first_T
        wrong += first_T if is_second else second_T
    return ServerAgreement(len(right), fmean(right), max(right), fmean(wrong), same, len(said) - after - done, after)


def _request(number: int, vocabulary: int) -> SampleRequest:
    """Some tokens, and how many are to follow: of each another number, so that not all turns end at once."""
    ids = torch.randint(vocabulary, (8 + number,), generator=torch.Generator().manual_seed(number)).tolist()
    return SampleRequest(f"agreement {number}", tuple(ids), number, max_tokens=4 + 4 * number)


async def _said(
    sampler: VllmSampler, requests: Sequence[SampleRequest], new_weights: Path | None = None
) -> tuple[list[tuple[Sample, str]], int]:
    """Each request's sample and the weights it names; with `new_weights` all are asked twice, the second time after these came. And how many
    had been answered by then."""
    await asyncio.to_thread(sampler.start)
    try:
        asked, done = [asyncio.create_task(_one(sampler, request)) for request in requests], 0
        if new_weights is not None:
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)  # so the others are in the server's batch
            done = sum(task.done() for task in asked)
            taking = asyncio.create_task(asyncio.to_thread(PolicyServer(sampler.url, sampler.key).take, new_weights))
            asked += [asyncio.create_task(_one(sampler, request)) for request in requests]
            await taking
        return list(await asyncio.gather(*asked)), done
    finally:
        await sampler.close()


async def _one(sampler: VllmSampler, request: SampleRequest) -> tuple[Sample, str]:
    """A sample of all its `max_tokens`, so that it takes its time."""
    body = sampler.body(request)
    body["sampling_params"]["stop_token_ids"] = []
    response = await sampler.ask(json.dumps(body).encode())
    return parse_sample(answer(sampler.url, GENERATE, response), sampler.end_of_turn, greedy=sampler.temperature == 0)


@contextmanager
def _other_weights(model: Any) -> Iterator[None]:
    """Every matrix with some noise, for as long as this lasts."""
    noise = torch.Generator().manual_seed(0)
    kept = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    try:
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter += NOISE * parameter.std() * torch.randn(parameter.shape, generator=noise).to(parameter.device)
        yield
    finally:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(kept[name])


@torch.inference_mode()
def _gaps(model: Any, request: SampleRequest, sample: Sample) -> list[float]:
    """|log-probability here − log-probability there| of each sampled token, at temperature 1."""
    ids = torch.tensor([[*request.context_ids, *sample.token_ids]], device=model.device)
    logprob_TV = model(ids).logits[0, len(request.context_ids) - 1 : -1].float().log_softmax(dim=-1)
    here_T = logprob_TV.gather(-1, torch.tensor(sample.token_ids, device=model.device)[:, None])[:, 0].tolist()
    return [abs(here - there) for here, there in zip(here_T, sample.logprobs, strict=True)]


@torch.inference_mode()
def _greedy(model: Any, request: SampleRequest) -> tuple[int, ...]:
    """The likeliest tokens; the end of a turn does not end them."""
    ids = torch.tensor([request.context_ids], device=model.device)
    for _ in range(request.max_tokens):
        ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(dim=-1)], dim=1)
    return tuple(ids[0, len(request.context_ids) :].tolist())
