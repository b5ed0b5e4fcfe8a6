"""The key-value cache of the in-process sampler: one row a dialogue, each of its own length."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import pad
from transformers.cache_utils import Cache


class RowCache(Cache):
    """Keys and values (rows, heads, tokens, head size) of each layer; they double when the longest row needs it."""

    def __init__(self, model: Any, rows: int) -> None:
        super().__init__(layers=[])
        config = model.config
        heads = config.num_key_value_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        empty = torch.zeros((rows, heads, 0, size), dtype=model.dtype, device=model.device)
        self.keys = [empty] * config.num_hidden_layers
        self.values = [empty] * config.num_hidden_layers
        self.rows_L: torch.Tensor | slice = slice(None)
        self.put: tuple[torch.Tensor, ...] = ()  # (batch index, query index, row, position) of every real token
        self.longest = 0

    def make_room(self, longest: int, capacity: int) -> None:
        """Room for `longest` tokens a row: twice what there was at least, never above `capacity`."""
        room = self.keys[0].shape[2]
        if longest > room:
            more = min(max(longest, 2 * room), capacity) - room
            for layers in (self.keys, self.values):
                layers[:] = [pad(layer, (0, 0, 0, more)) for layer in layers]

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any) -> Any:
        batch_index, query_index, row, position = self.put
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        keys[row, :, position] = key_states[batch_index, :, query_index]
        values[row, :, position] = value_states[batch_index, :, query_index]
        return keys[self.rows_L, :, : self.longest], values[self.rows_L, :, : self.longest]

    def get_seq_length(self, *_: Any, **__: Any) -> int:
        return 0
