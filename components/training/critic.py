"""The critic of PPO: a value for every state in which the policy speaks, and the loss that fits it.

The value of a token is read from the hidden state before it, so it never sees what it judges.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

_NONE = 1e-12  # a variance of returns in 0..1 that is rounding


class Critic(nn.Module):
    """A linear value head, zero at first: on the policy's own hidden states, or on those of a trunk of its own.

    A value is `level`, the mean return of the last batch, plus what the head says. A level that the weights had to carry would be
    noise on every token while the policy improves (value normalisation, after van Hasselt et al. 2016, "Learning values across many
    orders of magnitude", without its scale).
    """

    level: torch.Tensor

    def __init__(self, policy: Any, separate: bool) -> None:
        super().__init__()
        self.trunk = copy.deepcopy(policy.base_model) if separate else None
        self.value_head = nn.Linear(policy.config.hidden_size, 1).to(policy.device, torch.float32)
        nn.init.zeros_(self.value_head.weight)
        nn.init.zeros_(self.value_head.bias)
        self.register_buffer("level", torch.zeros((), device=policy.device))  # in checkpoints, like the weights

    def forward(self, hidden_BTH: torch.Tensor, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Values (B, T); `hidden_BTH` are the policy's hidden states, not used by a critic with its own trunk."""
        if self.trunk is not None:
            hidden_BTH = self.trunk(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
        value_BT: torch.Tensor = self.level + self.value_head(hidden_BTH.float()).squeeze(-1)
        return value_BT

    def move_level(self, to: torch.Tensor) -> torch.Tensor:
        """Put the level at `to` (a mean return); returns by how much every value has moved."""
        moved = to.to(self.level) - self.level
        self.level += moved
        return moved


def value_losses(value: torch.Tensor, old_value: torch.Tensor, returned: torch.Tensor, clip: float) -> torch.Tensor:
    """Clipped squared errors, elementwise: a value gains nothing from moving further than `clip` from its old one (Schulman et al.,
    "Proximal policy optimization algorithms", as in the authors' baselines). `clip` 0: not clipped."""
    error = (value - returned).square()
    if clip:
        bounded = old_value + (value - old_value).clamp(-clip, clip)
        error = torch.maximum(error, (bounded - returned).square())
    return 0.5 * error


def explained_variance(
    value: torch.Tensor, returned: torch.Tensor, over_processes: Callable[[torch.Tensor], torch.Tensor] = lambda sums: sums
) -> float:
    """1 − Var(return − value) / Var(return) over 1-D tensors: 1 perfect, 0 no better than a constant; NaN where returns do not vary.

    `over_processes` adds up sums: each process holds a part of the values."""
    count, total, off = over_processes(torch.stack([torch.ones_like(returned).sum(), returned.sum(), (returned - value).sum()]))
    centred, error = returned - total / count, returned - value - off / count
    spread, left = over_processes(torch.stack([centred.square().sum(), error.square().sum()]))
    return float(1 - left / spread) if spread > _NONE * count else float("nan")
