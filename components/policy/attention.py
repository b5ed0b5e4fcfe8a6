"""Two ways to compute attention on a CPU that are faster there than the library's, for models whose layers all attend to everything before;
and the key-value cache of the in-process sampler.

`GROUPED` reads from a cache (a few queries, many keys), `BLOCKED` whole sequences with their gradient. Both are plain softmax attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.cache_utils import Cache
from transformers.masking_utils import AttentionMaskInterface

GROUPED = "rlver_grouped"
BLOCKED = "rlver_blocked"
_QUERIES = 192  # in a block; measured with sequences of 600 tokens
_WIDE = 64  # size of a head from which the library's kernel for one query is the faster one
_MORE_THAN_PLAIN = ("softcap", "s_aux")


def grouped_attention(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: torch.Tensor, scaling: float, **other: Any
) -> tuple[torch.Tensor, None]:
    """Attention without copying shared key-value heads.

    query (B, H, Q, D), key and value (B, K, T, D) with H a multiple of K, attention_mask (B, 1, Q, T) additive. Returns (B, Q, H, D).
    Raises ValueError for attention that is more than this: a cap on scores, sinks.
    """
    if _is_more_than_plain(other):
        raise ValueError(f"{type(module).__name__} is no plain softmax attention")
    batch, heads, queries, size = query.shape
    groups = heads // key.shape[1]
    grouped = query.reshape(batch, key.shape[1], groups * queries, size)
    if queries == 1 and size >= _WIDE:
        mixed = scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask.to(query.dtype), scale=scaling)
        return mixed.reshape(batch, heads, 1, size).transpose(1, 2), None
    scores = torch.matmul(grouped, key.transpose(2, 3)) * scaling
    scores = scores.view(batch, heads, queries, -1) + attention_mask
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(query.dtype).view(batch, key.shape[1], groups * queries, -1)
    mixed = torch.matmul(weights, value).view(batch, heads, queries, size)
    return mixed.transpose(1, 2).contiguous(), None


def blocked_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    **other: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention, a block of queries at a time, so that nothing is computed for the keys after the block.

    query (B, H, T, D), key and value (B, K, T, D) with H a multiple of K, attention_mask (B, 1, 1, T) additive or None: which keys are
    padding. Returns (B, T, H, D). Raises ValueError as `grouped_attention`.
    """
    if _is_more_than_plain(other):
        raise ValueError(f"{type(module).__name__} is no plain softmax attention, and no other is trained on a CPU; train another model")
    batch, heads, length, size = query.shape
    shared = key.shape[1]
    grouped = query.reshape(batch, shared, heads // shared, length, size) * scaling
    blocks = []
    for start in range(0, length, _QUERIES):
        stop = min(length, start + _QUERIES)
        rows = heads // shared * (stop - start)
        scores = torch.matmul(grouped[:, :, :, start:stop].reshape(batch, shared, rows, size), key[:, :, :stop].transpose(2, 3))
        scores = scores.view(batch, shared, heads // shared, stop - start, stop)
        future = torch.ones(stop - start, stop, dtype=torch.bool, device=query.device).triu(start + 1)
        scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        if attention_mask is not None:
            scores = scores + attention_mask[:, :, None, :, :stop]
        weights = scores.softmax(dim=-1).view(batch, shared, rows, stop)
        blocks.append(torch.matmul(weights, value[:, :, :stop]).view(batch, heads, stop - start, size))
    return torch.cat(blocks, dim=2).transpose(1, 2).contiguous(), None


def _is_more_than_plain(other: Mapping[str, Any]) -> bool:
    return any(other.get(name) is not None for name in _MORE_THAN_PLAIN)


def _padding(*_: Any, attention_mask: torch.Tensor | None = None, dtype: torch.dtype = torch.float32, **__: Any) -> torch.Tensor | None:
    """(B, 1, 1, T) additive mask of the padded keys, None where nothing is padded; causality is in the attention itself."""
    if attention_mask is None or bool(attention_mask.all()):
        return None
    bias = torch.zeros(attention_mask.shape, dtype=dtype, device=attention_mask.device)
    return bias.masked_fill(~attention_mask.bool(), torch.finfo(dtype).min / 2)[:, None, None]


AttentionInterface.register(GROUPED, grouped_attention)
AttentionInterface.register(BLOCKED, blocked_attention)
AttentionMaskInterface.register(BLOCKED, _padding)


@contextmanager
def attention(model: Any, name: str) -> Iterator[None]:
    """Compute `model`'s attention in the named way inside the block."""
    before = model.config._attn_implementation
    model.config._attn_implementation = name
    try:
        yield
    finally:
        model.config._attn_implementation = before


@contextmanager
def attention_for_training(model: Any) -> Iterator[None]:
    """`BLOCKED` for a model on a CPU whose layers attend to everything, the library's own choice for all others, and for a model that
    computes its layers once more in the backward pass, which comes after this."""
    layers = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    if model.device.type != "cpu" or model.is_activation_checkpointing or layers != {"full_attention"}:
        yield
        return
    with attention(model, BLOCKED):
        yield


class RowCache(Cache):
    """Keys and values (rows, heads, tokens, head size) of each layer; they double when the longest row needs it.

    A forward pass reads and writes neighbouring rows, `rows`, without copying any: `reorder` brings them together.
    """

    def __init__(self, model: Any, rows: int) -> None:
        super().__init__(layers=[])
        config = model.config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        empty = torch.zeros((rows, heads, 0, size), dtype=model.dtype, device=model.device)
        self.keys = [empty] * config.num_hidden_layers
        self.values = [empty] * config.num_hidden_layers
        self.rows = slice(0, rows)
        self.put: tuple[torch.Tensor, ...] = ()  # (batch index, query index, row, position) of every real token
        self.longest = 0

    def make_room(self, longest: int, capacity: int) -> None:
        """Room for `longest` tokens a row: twice what there was at least, never above `capacity`."""
        room = self.keys[0].shape[2]
        if longest > room:
            more = min(max(longest, 2 * room), capacity) - room
            keys, values = ([pad(layer, (0, 0, 0, more)) for layer in layers] for layers in (self.keys, self.values))
            self.keys, self.values = keys, values  # both or, where memory ends, neither

    def reorder(self, order: Sequence[int], longest: int) -> None:
        """Row i becomes what row `order[i]` was, up to `longest` tokens."""
        moved = [row for row, source in enumerate(order) if row != source]
        if not moved:
            return
        to = torch.tensor(moved, device=self.keys[0].device)
        source = torch.tensor([order[row] for row in moved], device=to.device)
        for layers in (self.keys, self.values):
            for layer in layers:
                layer[to, :, :longest] = layer[source, :, :longest]

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any) -> Any:
        batch_index, query_index, row, position = self.put
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        keys[row, :, position] = key_states[batch_index, :, query_index].to(keys.dtype)  # autocast turns them in float32
        values[row, :, position] = value_states[batch_index, :, query_index].to(values.dtype)
        return keys[self.rows, :, : self.longest], values[self.rows, :, : self.longest]

    def get_seq_length(self, *_: Any, **__: Any) -> int:
        return 0
