"""What one GPU does with this project's sampler and training step, beside what the GPU could do at best. Within ten minutes, without a network.

    python -m benchmarks.gpu                                          # a model of the shape of Qwen2.5-0.5B with random weights
    python -m benchmarks.gpu --shape 1.5b
    python -m benchmarks.gpu --weights pretrained/models/pretrained-warmup   # and thirty real GRPO steps of a small model
    python -m benchmarks.gpu --shape toy                              # a minute on a CPU

Limits are measured first, on this machine: products of large bfloat16 matrices (FLOP/s) and copies of memory (bytes/s). Decoding can be no faster than
reading the weights and the key-value rows once for each step of all rows. A training step is 6 FLOP a weight and token (2 forward, 4 backward; the words'
matrix is for the policy's tokens alone, and attention is left out), so its share of the measured FLOP/s (MFU) is a little too low. Random weights cost what trained ones cost. The model learns with float32
weights and bfloat16 products, and samples with a bfloat16 copy (`policy.precision: native`), as the stage `train` does.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from benchmarks.gpu_training import thirty_steps
from benchmarks.pretrained_step import NO_END, PROMPT, REPLY, USER, our_rollouts, rows_of, stock_rollouts, words
from rlver.components.policy.precision import Copy, autocast
from rlver.components.policy.sampler import SampleRequest
from rlver.components.policy.transformers_sampler import TransformersSampler
from rlver.components.training.token_scores import add_token_scores

READINGS = 3  # of each rate; the middle one is shown


@dataclass(frozen=True)
class Shape:
    """A model, and how much is asked of it: `dialogues` at once, `turns` each; `rows` of them in a forward pass of training."""

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    inner: int
    vocabulary: int
    dialogues: int = 64
    turns: int = 8
    rows: int = 8
    matrix: int = 8192
    copied_bytes: int = 1 << 31


SHAPES = {
    "toy": Shape(64, 2, 4, 2, 128, 50_000, dialogues=4, turns=2, rows=2, matrix=512, copied_bytes=1 << 24),
    "0.5b": Shape(896, 24, 14, 2, 4864, 151_936),
    "1.5b": Shape(1536, 28, 12, 2, 8960, 151_936),
}


@dataclass(frozen=True)
class Limits:
    """What this machine reached: multiplying matrices and copying memory."""

    flops: float
    bytes_per_s: float


def model_of(shape: Shape, device: str) -> Any:
    """A Qwen2 of this shape with random float32 weights."""
    torch.manual_seed(0)
    config = Qwen2Config(
        hidden_size=shape.hidden, num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads, intermediate_size=shape.inner, vocab_size=shape.vocabulary, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.device(device):
        return Qwen2ForCausalLM(config)


def seconds(work: Callable[[], object], readings: int = READINGS) -> float:
    """The middle of several readings, after one that does not count."""

    def once() -> float:
        begun = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter() - begun

    once()
    return median(once() for _ in range(readings))


def limits(shape: Shape, device: str) -> Limits:
    """In bfloat16, as the model multiplies."""
    left, right = (torch.randn(shape.matrix, shape.matrix, device=device, dtype=torch.bfloat16) for _ in range(2))
    source = torch.zeros(shape.copied_bytes, device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    flops = 2 * shape.matrix**3 / seconds(lambda: left @ right)
    return Limits(flops, 2 * shape.copied_bytes / seconds(lambda: target.copy_(source)))


def decode_limit(shape: Shape, weights: int, found: Limits) -> float:
    """Tokens a second at best: every step of all rows reads all weights once, and each row its keys and values, in bfloat16."""
    mean_context = PROMPT + shape.turns * (REPLY + USER) / 2
    row = 2 * shape.layers * shape.key_value_heads * (shape.hidden // shape.heads) * mean_context * 2
    return shape.dialogues * found.bytes_per_s / (2 * weights + shape.dialogues * row)


@contextmanager
def peak(found: dict[str, float], name: str) -> Iterator[None]:
    """Note the most memory of the GPU in use inside the block, in GB; nothing on a CPU."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    yield
    if torch.cuda.is_available():
        found[name] = torch.cuda.max_memory_allocated() / 1e9


def train_step(model: Any, optimizer: torch.optim.Optimizer, ids: torch.Tensor, mask: torch.Tensor, rows: int) -> None:
    """Forward, backward and AdamW over finished dialogues, `rows` at a time, loss on the policy's tokens."""
    for part in (slice(first, first + rows) for first in range(0, len(ids), rows)):
        with autocast("native"):
            scores = model(input_ids=ids[part], attention_mask=torch.ones_like(ids[part]), policy_mask=mask[part])
        (-scores.log_probs.sum() / mask.sum()).backward()
    optimizer.step()
    optimizer.zero_grad()


def logprob_gap(model: Any, sampler: TransformersSampler) -> float:
    """Mean distance, in nats a token, of what the sampler and the training pass say of the same tokens. `model` gives token scores."""
    sampler.start()
    prompts = [tuple(words(number, PROMPT)) for number in range(min(4, sampler.rows))]

    async def sampled() -> list[Any]:
        requests = [SampleRequest(f"gap{number}", prompt, number, REPLY) for number, prompt in enumerate(prompts)]
        return list(await asyncio.gather(*map(sampler.sample, requests)))

    samples = asyncio.run(sampled())
    distances = []
    for prompt, sample in zip(prompts, samples, strict=True):
        ids = torch.tensor([[*prompt, *sample.token_ids]], device=model.device)
        mask = torch.tensor([[0] * len(prompt) + [1] * len(sample.token_ids)], device=model.device)
        with torch.no_grad(), autocast("native"):
            scores = model(input_ids=ids, attention_mask=torch.ones_like(ids), policy_mask=mask).log_probs[0, len(prompt) - 1 :]
        distances += (scores.float().cpu() - torch.tensor(sample.logprobs)).abs().tolist()
    return sum(distances) / len(distances)


def sampler_of(model: Any, shape: Shape) -> TransformersSampler:
    return TransformersSampler(model, NO_END, 0.8, 1.0, shape.dialogues, PROMPT + shape.turns * (REPLY + USER), "native")


def stock_rate(model: Any, shape: Shape) -> float:
    """Tokens a second of transformers' own decoding, with the same bfloat16 copy."""
    copied = Copy(model).model
    return shape.dialogues * shape.turns * REPLY / seconds(lambda: stock_rollouts(copied, shape.dialogues, shape.turns), 1)


def own_rate(model: Any, shape: Shape) -> float:
    sampler = sampler_of(model, shape)

    def rollouts() -> None:
        sampler.start()
        asyncio.run(our_rollouts(sampler, shape.dialogues, shape.turns))

    return shape.dialogues * shape.turns * REPLY / seconds(rollouts, 1)


def training_rate(model: Any, shape: Shape) -> float:
    """Tokens a second, the user's included, of `train_step`. `model` gives token scores."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    ids, mask = rows_of(shape.rows * 2, shape.turns, model.device)
    return ids.numel() / seconds(lambda: train_step(model, optimizer, ids, mask, shape.rows), 2)


def rows_of_table(name: str, shape: Shape, device: str) -> Iterator[tuple[str, str, str]]:
    """(what, found, at best) of each measurement."""
    found, memory = limits(shape, device), dict[str, float]()
    model = model_of(shape, device).eval()
    weights = sum(weight.numel() for weight in model.parameters())
    yield "matrix products, bfloat16", f"{found.flops / 1e12:.1f} TFLOP/s", ""
    yield "copies of memory", f"{found.bytes_per_s / 1e9:.0f} GB/s", ""
    yield f"weights of the shape {name}", f"{weights / 1e6:.0f} M", ""
    most, stock = f"{decode_limit(shape, weights, found):.0f} tokens/s", stock_rate(model, shape)
    yield "rollouts, transformers' generate", f"{stock:.0f} tokens/s", most
    with peak(memory, "rollouts"):
        own = own_rate(model, shape)
    yield "rollouts, this project's sampler", f"{own:.0f} tokens/s, {own / stock:.1f} x generate", most
    add_token_scores(model, 0.8)
    yield "sampler against training pass", f"{logprob_gap(model, sampler_of(model, shape)):.4f} nats a token", ""
    with peak(memory, "training"):
        rate = training_rate(model, shape)
    said = REPLY * shape.turns / (PROMPT + shape.turns * (REPLY + USER))  # share of the tokens that the policy says
    flop = 6 * (weights - (1 - said) * shape.hidden * shape.vocabulary)  # a token
    share = f"{rate:.0f} tokens/s, MFU {flop * rate / found.flops:.0%}"
    yield "training step with AdamW", share, f"{found.flops / flop:.0f} tokens/s"
    for when, gigabytes in memory.items():
        yield f"peak memory, {when}", f"{gigabytes:.1f} GB", ""


def main(argv: Sequence[str] | None = None) -> None:
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="0.5b" if on_gpu else "toy")
    parser.add_argument("--weights", type=Path, help="folder of a small pretrained model that takes real GRPO steps too")
    parser.add_argument("--steps", type=int, default=30, help="of GRPO, with --weights")
    arguments = parser.parse_args(argv)
    device = "cuda" if on_gpu else "cpu"
    print(f"{torch.cuda.get_device_name() if on_gpu else 'CPU'}, torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    print("| what | found | at best |\n|---|---|---|")
    for row in rows_of_table(arguments.shape, SHAPES[arguments.shape], device):
        print(f"| {' | '.join(row)} |", flush=True)
    print("| rollouts, vLLM | not in this process: `python -m benchmarks.vllm_rollouts` where .venv-vllm is | |", flush=True)
    if arguments.weights is not None:
        thirty_steps(arguments.weights, arguments.steps)


if __name__ == "__main__":
    main()
