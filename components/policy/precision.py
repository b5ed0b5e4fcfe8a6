"""In which numbers a policy computes. Weights that learn are always float32: in bfloat16 an update of 1e-6 would leave most of them as they are."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

_MULTIPLIES = ("avx512_bf16", "amx_bf16", "arm_bf16", "bf16")  # names of torch.cpu.get_capabilities()


def computes_in_bfloat16(precision: str) -> bool:
    """Whether `policy.precision` means bfloat16 on this machine: `native` does where the processor multiplies it itself."""
    if precision == "float32":
        return False
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    able = torch.cpu.get_capabilities()
    return any(able.get(name) for name in _MULTIPLIES)


def autocast(precision: str) -> AbstractContextManager[Any]:
    """Matrix products in bfloat16 inside the block, where `precision` means that; everything that adds up many numbers stays float32."""
    if not computes_in_bfloat16(precision):
        return nullcontext()
    return torch.autocast("cuda" if torch.cuda.is_available() else "cpu", torch.bfloat16)


class Copy:
    """A model's weights in bfloat16 or `dtype`, to sample with. What is no weight (places of tokens) stays as it is."""

    def __init__(self, model: Any, dtype: torch.dtype = torch.bfloat16) -> None:
        self.model = copy.deepcopy(model)
        vars(self.model).pop("forward", None)  # of a trainer that has put another in its place
        for weight in self.model.parameters():
            weight.requires_grad_(False)
            weight.grad = None
            weight.data = weight.data.to(dtype)

    @torch.no_grad()
    def refresh(self, model: Any) -> None:
        """Take over what `model` has learned."""
        for mine, theirs in zip(self.model.parameters(), model.parameters(), strict=True):
            mine.copy_(theirs)
