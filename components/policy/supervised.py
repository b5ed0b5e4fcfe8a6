"""Supervised training: next-token prediction on dialogues, the supporter's words weighted above the user's.

The tiny policy's lessons come in order: single replies, then dialogues of a good supporter, then the habits the base is to have (mostly poor
support). What good support looks like is learned while it is frequent and stays available, as a function of the cues, when it is rare.

Deterministic on a CPU given seed, corpus and thread count, as long as the pass ends before `max_seconds` decides the schedule (the metrics say if it was cut short).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

from rlver.components.domain.thinking import system_prompt
from rlver.components.policy.attention import attention_for_training
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.precision import autocast

WARMUP_STEPS = 50
_LOGIT_SCALES = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier", "output_multiplier")
USER_WEIGHT = 0.1  # a user's token teaches what users sound like, but the policy never has to say it


@dataclass(frozen=True)
class Example:
    """Token ids and the weight of each in the loss."""

    ids: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class WarmStarted:
    steps: int
    tokens: int
    seconds: float
    first_loss: float
    last_loss: float
    cut_short: bool


def encode_dialogue(
    tokenizer: Any,
    users: Sequence[str],
    replies: Sequence[str],
    thinking: bool,
    user_weight: float = USER_WEIGHT,
    taught: Sequence[bool] | None = None,
) -> Example:
    """The dialogue as the policy will see and say it: what it will sample weighs 1, the user's later messages `user_weight`.

    `taught`: for each reply whether it weighs anything (default: all do); the others are only read.
    """
    chat = ChatFormat(tokenizer, system_prompt(thinking))
    ids = chat.start(users[0])
    weights = [0.0] * len(ids)
    for number, reply in enumerate(replies):
        spoken = [*tokenizer(reply, add_special_tokens=False)["input_ids"], chat.end_of_turn]
        ids += spoken
        weights += [1.0 if taught is None or taught[number] else 0.0] * len(spoken)
        if number + 1 < len(users):
            heard = chat.user_turn(users[number + 1])
            ids += heard
            weights += [user_weight] * len(heard)
    return Example(tuple(ids), tuple(weights))


def encode_reply(tokenizer: Any, reply: str) -> Example:
    """A single reply without its dialogue: how supporters talk at all."""
    chat = ChatFormat(tokenizer, "")
    opening = chat.start("")[-1:]
    spoken = tokenizer(reply, add_special_tokens=False)["input_ids"]
    return Example((*opening, *spoken, chat.end_of_turn), (0.0, *[1.0] * (len(spoken) + 1)))


def encode_text(tokenizer: Any, text: str) -> Example:
    """Plain text between two end tokens, as lm-eval will score it; every token but the first weighs 1."""
    end = tokenizer.eos_token_id
    ids = [end, *tokenizer(text, add_special_tokens=False)["input_ids"], end]
    return Example(tuple(ids), (0.0, *[1.0] * (len(ids) - 1)))


def train_upper_layers(model: Any, count: int) -> None:
    """Let only the `count` uppermost layers of `model` learn; 0: all of it. What is below costs a forward pass, and no backward one.

    Raises ValueError for a model with fewer layers.
    """
    if not count:
        return
    layers = model.base_model.layers
    if count > len(layers):
        raise ValueError(f"trained_layers is {count}, but the model has {len(layers)} layers; lower it")
    for weight in model.parameters():
        weight.requires_grad_(False)
    for layer in [*layers[-count:], model.base_model.norm]:
        for weight in layer.parameters():
            weight.requires_grad_(True)


def warm_start(
    model: Any,
    lessons: Sequence[Sequence[Example]],
    learning_rate: float,
    batch_tokens: int,
    max_seconds: float,
    seed: int,
    on_step: Callable[[int, int, float], None] = lambda step, steps, loss: None,
    precision: str = "float32",
) -> WarmStarted:
    """One pass over the lessons, one after the other, with AdamW and a cosine schedule, for the weights that require gradients.

    On a machine too slow for the pass within `max_seconds` (0: no limit), the schedule runs down by time and every lesson is cut at its
    share of the time, so that none is lost to those before it.
    """
    batches = [(number, batch) for number, examples in enumerate(lessons) for batch in _batches(examples, batch_tokens, seed + number)]
    ends = [sum(other <= number for other, _ in batches) / len(batches) for number in range(len(lessons))]
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    began = time.monotonic()
    losses: list[float] = []
    seen = 0
    model.train()
    for step, (lesson, batch) in enumerate(batches):
        elapsed = (time.monotonic() - began) / max_seconds if max_seconds else 0.0
        if elapsed >= ends[lesson]:
            continue
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _schedule(step, max(step / len(batches), elapsed))
        with attention_for_training(model), autocast(precision):
            loss = next_token_loss(model, batch)
            loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(learning, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seen += sum(len(example.ids) for example in batch)
        on_step(step + 1, len(batches), losses[-1])
    model.eval()
    tail = losses[-10:]
    return WarmStarted(len(losses), seen, time.monotonic() - began, losses[0], sum(tail) / len(tail), len(losses) < len(batches))


def _schedule(step: int, progress: float) -> float:
    """Share of the peak learning rate: a short warm-up, then a cosine down to a twentieth at progress 1."""
    return min(1.0, (step + 1) / WARMUP_STEPS) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress)))


def _batches(examples: Sequence[Example], batch_tokens: int, seed: int) -> Iterator[list[Example]]:
    """Batches of about `batch_tokens` padded tokens, of similar length inside, in random order; none of no examples."""
    if not examples:
        return
    random = Random(seed)
    order = sorted(range(len(examples)), key=lambda index: (len(examples[index].ids) // 32, random.random()))
    batches: list[list[Example]] = [[]]
    for index in order:
        longest = max([len(examples[index].ids), *(len(example.ids) for example in batches[-1])])
        if batches[-1] and longest * (len(batches[-1]) + 1) > batch_tokens:
            batches.append([])
        batches[-1].append(examples[index])
    random.shuffle(batches)
    yield from batches


def refuse_scaled_logits(model: Any) -> None:
    """Raise ValueError for a model that does more to its logits than project them."""
    scaled = [name for name in _LOGIT_SCALES if getattr(model.config, name, None) not in (None, 1.0)]
    if scaled:
        raise ValueError(
            f"{model.config.model_type} scales its logits ({', '.join(scaled)}), which training does not do yet; train another model"
        )


def next_token_loss(model: Any, batch: Sequence[Example]) -> torch.Tensor:
    """Weighted mean cross-entropy of the next token. Raises ValueError as `refuse_scaled_logits`."""
    refuse_scaled_logits(model)
    width = max(len(example.ids) for example in batch)
    pad = model.config.pad_token_id or 0
    ids = torch.tensor([list(example.ids) + [pad] * (width - len(example.ids)) for example in batch], device=model.device)
    weight = torch.tensor([list(example.weights) + [0.0] * (width - len(example.ids)) for example in batch], device=model.device)[:, 1:]
    wanted = weight > 0  # the padding is on the right, where nothing that counts looks
    logits = model.lm_head(model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][wanted]).float()
    losses = torch.nn.functional.cross_entropy(logits, ids[:, 1:][wanted], reduction="none")
    return (losses * weight[wanted]).sum() / weight.sum()
