"""Two parts of TRL's asynchronous trainer that want a GPU, on a CPU: its attention kernel, and its look at the speed of the card."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from trl.experimental.async_grpo import async_grpo_trainer, packing


def put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_grpo_trainer, "get_peak_flops_per_device", lambda *_: 1e12)  # it asks CUDA for the name of the card
    monkeypatch.setattr(packing, "_flash_attn", lambda: SimpleNamespace(flash_attn_varlen_func=varlen))


def varlen(q: Any, k: Any, v: Any, ends_q: Any, ends_k: Any, *_: Any, softmax_scale: float, **__: Any) -> Any:
    """What the kernel computes: each stretch of queries sees the keys of its own path, the last query the last key."""
    found = []
    for first_q, last_q, first_k, last_k in zip(ends_q[:-1], ends_q[1:], ends_k[:-1], ends_k[1:], strict=True):
        query, key, value = (part.transpose(0, 1) for part in (q[first_q:last_q], k[first_k:last_k], v[first_k:last_k]))
        key, value = (part.repeat_interleave(len(query) // len(key), dim=0) for part in (key, value))
        queries, keys = query.shape[1], key.shape[1]
        sees = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=sees, scale=softmax_scale)
        found.append(mixed.transpose(0, 1))
    return torch.cat(found)
