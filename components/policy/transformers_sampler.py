"""Sampling in process with a transformers model, batching whatever dialogues are ready.

What a dialogue has read stays in a key-value cache that lives as long as the dialogue, so a turn costs only its new tokens.
Each dialogue owns one row of the cache and its own random numbers: which dialogues share a batch changes what is drawn by rounding alone.
The cache is built from the weights at the time: call `start` again after the model was updated.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from rlver.components.domain.printable import first_line
from rlver.components.policy.attention import GROUPED, RowCache, attention
from rlver.components.policy.draw import draw
from rlver.components.policy.precision import Copy, computes_in_bfloat16, is_held_in_bfloat16
from rlver.components.policy.sampler import Sample, SampleRequest

READ_AT_ONCE = 32_768  # tokens of one forward pass, padding included: bounds its memory, whatever the number of dialogues
_LARGE = 20_000_000  # parameters from which computing a finished row costs more than moving another to its place
_NEAR = 0.02  # of the largest logit: what two ways to compute it in the same numbers may differ by
_ROUNDED = 0.1  # and in bfloat16: a warmed-up SmolLM2-135M is 0.027 off
_OTHERWISE = "sample with rollout.sampler: vllm, or serve it and name it openai:MODEL"


@dataclass
class _Waiting:
    request: SampleRequest
    answer: asyncio.Future[Sample]


@dataclass
class TransformersSampler:
    """Samples with `model` (a causal LM with full attention) at `temperature` and `top_p`; temperature 0 is greedy."""

    model: Any
    end_of_turn: int
    temperature: float
    top_p: float
    rows: int  # dialogues that can be open at once
    capacity: int  # tokens of one dialogue
    precision: str = "float32"  # see precision.py
    apart: bool = False  # speak with a copy of the weights, which may learn meanwhile
    busy_seconds: float = 0.0  # in the model, since this was made
    _copy: Copy | None = None
    _cache: RowCache | None = None
    _in_row: list[str | None] = field(default_factory=list)  # the dialogue in each row of the cache
    _read: dict[str, tuple[int, ...]] = field(default_factory=dict)  # tokens of each dialogue that are in the cache
    _forgotten: deque[str] = field(default_factory=deque)  # dialogues whose rows the next batch frees: a batch owns the rows, in its thread
    _waiting: list[_Waiting] = field(default_factory=list)
    _worker: asyncio.Task[None] | None = None

    @property
    def _reads(self) -> Any:
        """What is sampled with: the model, or its copy."""
        return self.model if self._copy is None else self._copy.model

    def _numbers(self) -> AbstractContextManager[Any]:
        """In which the model multiplies: bfloat16, where its matrices are held in that."""
        return torch.autocast(self.model.device.type, torch.bfloat16, enabled=is_held_in_bfloat16(self.model))

    @cached_property
    def _leave_at(self) -> float:
        """The share of rows that still speak at which the others leave the forward pass. On a GPU a finished row costs next to nothing."""
        on_cpu = self.model.device.type == "cpu"
        return 0.9 if on_cpu and sum(weight.numel() for weight in self.model.parameters()) >= _LARGE else 0.5

    def start(self) -> None:
        """Forget everything read so far; call before the first dialogue and after every change of the weights.

        Raises ValueError, the first time, for a model whose attention is not plain and full: its replies would be another model's.
        """
        if self._copy is not None:
            self._copy.refresh(self.model)
        if self._cache is None:
            torch.backends.cuda.enable_cudnn_sdp(False)  # as in load.py, for a model that was not loaded there
            held = is_held_in_bfloat16(self.model)
            self._must_read_as_the_model_does(_ROUNDED if held else _NEAR)
            if computes_in_bfloat16(self.precision) and not held:
                self._copy = Copy(self.model)
            elif self.apart:
                self._copy = Copy(self.model, torch.float32)
            if self._copy is not None:
                self._must_read_as_the_model_does(_ROUNDED)
            self._cache = RowCache(self._reads, self.rows)
        self._in_row = [None] * self.rows
        self._read.clear()
        self._forgotten.clear()
        self._waiting.clear()  # of a run that was interrupted

    async def sample(self, request: SampleRequest) -> Sample:
        if self._cache is None:
            raise RuntimeError("TransformersSampler.start() was not called")
        answer: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(request, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._serve())
        return await answer

    def forget(self, dialogue_id: str) -> None:
        self._forgotten.append(dialogue_id)

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _serve(self) -> None:
        """Answer batches until nobody waits; every dialogue that is ready when a batch starts is in it."""
        while self._waiting:
            for _ in range(3):  # let the dialogues that are ready ask
                await asyncio.sleep(0)
            batch, self._waiting = self._waiting, []
            try:
                began = time.monotonic()
                samples = await asyncio.to_thread(self._sample_batch, [waiting.request for waiting in batch])
                self.busy_seconds += time.monotonic() - began
            except Exception as error:  # the waiting dialogues must hear of it, whatever it is
                for waiting in batch:
                    if not waiting.answer.done():
                        waiting.answer.set_exception(error)
                continue
            for waiting, sample in zip(batch, samples, strict=True):
                if not waiting.answer.done():
                    waiting.answer.set_result(sample)

    @torch.inference_mode()
    def _sample_batch(self, requests: list[SampleRequest]) -> list[Sample]:
        assert self._cache is not None
        cache, device = self._cache, self.model.device
        unread_B, length_B = [], []
        while self._forgotten:
            self._free(self._forgotten.popleft())
        self._to_the_front([request.dialogue_id for request in requests], max(map(len, self._read.values()), default=0))
        for request in requests:
            read = self._read.get(request.dialogue_id, ())
            known = min(_common(read, request.context_ids), len(request.context_ids) - 1)
            unread_B.append(request.context_ids[known:])
            length_B.append(known)
            if len(request.context_ids) + request.max_tokens > self.capacity:
                raise ValueError(
                    f"{request.dialogue_id}: {len(request.context_ids)} + {request.max_tokens} tokens > {self.capacity}, the room of this sampler"
                )
        uniform_BT = pad_sequence(
            [torch.rand(request.max_tokens, generator=torch.Generator().manual_seed(request.seed)) for request in requests],
            batch_first=True,
        ).to(device)
        sampled: list[list[int]] = [[] for _ in requests]
        logprobs: list[list[float]] = [[] for _ in requests]
        finished = [False] * len(requests)
        live = list(range(len(requests)))  # requests in the forward pass, live[i] in row i; finished ones leave once they are many
        new_B = [list(ids) for ids in unread_B]
        with attention(self._reads, GROUPED), _without_dropout(self._reads), self._numbers():
            for step in range(max(request.max_tokens for request in requests)):
                parts = self._parts([new_B[index] for index in live])
                logits_LV = torch.cat([self._forward(cache, live[part], part.start, new_B, length_B) for part in parts])
                token_L, logprob_L = draw(logits_LV, uniform_BT[live, step], self.temperature, self.top_p)
                new_B = [[] for _ in requests]
                for index, token, logprob in zip(live, token_L.tolist(), logprob_L.tolist(), strict=True):
                    if finished[index] or len(sampled[index]) >= requests[index].max_tokens:
                        continue
                    sampled[index].append(token)
                    logprobs[index].append(logprob)
                    if token == self.end_of_turn:
                        finished[index] = True
                    elif len(sampled[index]) < requests[index].max_tokens:
                        new_B[index] = [token]
                speaking = [index for index in live if new_B[index]]
                if not speaking:
                    break
                if len(speaking) <= self._leave_at * len(live):
                    live = speaking
                    self._to_the_front([requests[index].dialogue_id for index in live], max(length_B))
        for request, row_length, ids in zip(requests, length_B, sampled, strict=True):
            self._read[request.dialogue_id] = (*request.context_ids, *ids)[:row_length]
        return [Sample(tuple(i), tuple(p), f) for i, p, f in zip(sampled, logprobs, finished, strict=True)]

    def _free(self, dialogue_id: str) -> None:
        self._read.pop(dialogue_id, None)
        if dialogue_id in self._in_row:
            self._in_row[self._in_row.index(dialogue_id)] = None

    def _to_the_front(self, dialogue_ids: list[str], longest: int) -> None:
        """These dialogues become the first rows of the cache, in this order; what the others have read stays, up to `longest` tokens."""
        assert self._cache is not None
        order = list(range(self.rows))
        for row, dialogue_id in enumerate(dialogue_ids):
            if dialogue_id not in self._in_row:
                if None not in self._in_row:
                    raise RuntimeError(f"more than {self.rows} dialogues are open; raise the sampler's rows or lower the concurrency")
                self._in_row[self._in_row.index(None)] = dialogue_id
            now = self._in_row.index(dialogue_id)
            self._in_row[row], self._in_row[now] = self._in_row[now], self._in_row[row]
            order[row], order[now] = order[now], order[row]
        self._cache.reorder(order, longest)

    @torch.inference_mode()
    def _must_read_as_the_model_does(self, near: float) -> None:
        """Read a few tokens in two parts through a cache, and whole through the model's own forward: both must end in the same logits."""
        config = self.model.config
        window = getattr(config, "sliding_window", None)
        if window and window < self.capacity and set(getattr(config, "layer_types", None) or ["all"]) != {"full_attention"}:
            raise ValueError(
                f"{config.model_type}: its attention ends after {window} tokens, a dialogue may have {self.capacity}: lower "
                "policy.max_context_tokens (--context of rlver serve), or sample with rollout.sampler: vllm"
            )
        ids = [number % config.vocab_size for number in range(7, 7 + 3 * min(12, self.capacity), 3)]
        read = len(ids) // 2
        with _without_dropout(self.model), self._numbers():
            forward = type(self.model).forward  # its own: the trainer wraps the model's in bfloat16 on a GPU
            whole_V = forward(self.model, input_ids=torch.tensor([ids], device=self.model.device), use_cache=False).logits[0, -1].float()
            cache, length = RowCache(self._reads, 1), [0]
            try:
                with attention(self._reads, GROUPED), _without_dropout(self._reads):
                    self._forward(cache, [0], 0, [ids[:read]], length)
                    in_parts_V = self._forward(cache, [0], 0, [ids[read:]], length)[0].float()
            except (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
                raise ValueError(f"{config.model_type}: cannot be sampled in this process ({first_line(error)}); {_OTHERWISE}") from error
        if whole_V.isfinite().all() and not torch.allclose(whole_V, in_parts_V, rtol=near, atol=near * float(whole_V.abs().max())):
            raise ValueError(f"{config.model_type}: its attention or its logits are not the plain ones this sampler computes; {_OTHERWISE}")

    @staticmethod
    def _parts(new_L: list[list[int]]) -> list[slice]:
        """The live requests in as few parts, in order, as keep a forward pass within `READ_AT_ONCE` tokens (a single one may exceed it)."""
        size = max(1, READ_AT_ONCE // max(1, *map(len, new_L)))
        return [slice(first, first + size) for first in range(0, len(new_L), size)]

    def _forward(self, cache: RowCache, live: list[int], row: int, new_B: list[list[int]], length_B: list[int]) -> torch.Tensor:
        """Read the new tokens (right-padded) of the live requests in `row` and after, and return the logits (L, V) after each one's last.

        Requests without new tokens (already finished) read one padding token that is not kept. Updates `length_B` in place.
        """
        device = self.model.device
        new_L = [new_B[index] for index in live]
        width = max(1, max(len(new) for new in new_L))
        ids = torch.tensor([new + [self.end_of_turn] * (width - len(new)) for new in new_L], device=device)
        start = torch.tensor([length_B[index] for index in live], device=device)
        count = torch.tensor([len(new) for new in new_L], device=device)
        offset_Q = torch.arange(width, device=device)
        position_LQ = start[:, None] + offset_Q[None]
        real_LQ = offset_Q[None] < count[:, None]
        batch_index, query_index = real_LQ.nonzero(as_tuple=True)
        cache.rows = slice(row, row + len(live))
        cache.put = (batch_index, query_index, batch_index + row, position_LQ[batch_index, query_index])
        for index, new in zip(live, new_L, strict=True):
            length_B[index] += len(new)
        cache.longest = max(length_B[index] for index in live)
        cache.make_room(cache.longest, self.capacity)
        seen_LQT = torch.arange(cache.longest, device=device)[None, None] <= position_LQ[:, :, None]
        mask = torch.zeros(seen_LQT.shape, dtype=self._reads.dtype, device=device).masked_fill_(
            ~seen_LQT, torch.finfo(self._reads.dtype).min
        )
        hidden = self._reads.model(
            input_ids=ids,
            attention_mask=mask[:, None],
            position_ids=position_LQ.clamp_max(self.capacity - 1),
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        last = (count - 1).clamp_min(0)
        logits: torch.Tensor = self._reads.lm_head(hidden[torch.arange(len(live), device=device), last])
        return logits


def _common(read: Sequence[int], context: Sequence[int]) -> int:
    """Length of the common beginning."""
    if context[: len(read)] == read:
        return len(read)
    return next((index for index, (a, b) in enumerate(zip(read, context, strict=False)) if a != b), len(context))


@contextmanager
def _without_dropout(model: Any) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
