"""In which numbers a policy computes. Weights that learn are always float32: in bfloat16 an update of 1e-6 would leave most of them as they are.
Those of a model below adapters do not learn, and may be held in bfloat16.
"""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

_MULTIPLIES = ("avx512_bf16", "amx_bf16", "arm_bf16", "bf16")  # names of torch.cpu.get_capabilities()


def computes_in_bfloat16(precision: str) -> bool:
    """Whether `policy.precision` or `train.frozen_precision` means bfloat16 on this machine: `native` does where the processor multiplies it itself."""
    if precision == "float32":
        return False
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    able = torch.cpu.get_capabilities()
    return any(able.get(name) for name in _MULTIPLIES)


def autocast(precision: str) -> AbstractContextManager[Any]:
    """Matrix products in bfloat16 inside the block, where `precision` means that; everything that adds up many numbers stays float32."""
    if not computes_in_bfloat16(precision):
        return nullcontext()
    return torch.autocast("cuda" if torch.cuda.is_available() else "cpu", torch.bfloat16)


def hold_in_bfloat16(model: Any) -> None:
    """Hold the matrices of a model that does not learn in bfloat16, in place. Its vectors, and what its layers add up, stay float32.

    It computes inside autocast only, whose products round their matrices to bfloat16 anyway: of a model that was stored in bfloat16 not a
    digit is another. A head tied to the embeddings stays tied.
    """
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.data = weight.data.to(torch.bfloat16)
    model.get_input_embeddings().register_forward_hook(_in_float32)


def is_held_in_bfloat16(model: Any) -> bool:
    """Whether `hold_in_bfloat16` was called with the causal language model, which may have adapters in it by now."""
    return bool(model.get_input_embeddings().weight.dtype == torch.bfloat16)


def held_in_bfloat16(model: Any) -> dict[int, Any]:
    """The weights of `model` that never change and are held in bfloat16, by id: what a copy made by `copy.deepcopy(…, memo)` can share."""
    return {id(weight): weight for weight in model.parameters() if weight.dtype == torch.bfloat16 and not weight.requires_grad}


def _in_float32(_module: Any, _read: Any, embedded: torch.Tensor) -> torch.Tensor:
    return embedded.float()


class Copy:
    """A model's weights in bfloat16 or `dtype`, to sample with. What is no weight (places of tokens) stays as it is, and what is held in
    bfloat16 is the model's own."""

    def __init__(self, model: Any, dtype: torch.dtype = torch.bfloat16) -> None:
        held = held_in_bfloat16(model)
        self.model = copy.deepcopy(model, {**held})
        vars(self.model).pop("forward", None)  # of a trainer that has put another in its place
        for weight in self.model.parameters():
            if id(weight) in held:
                continue
            weight.requires_grad_(False)
            weight.grad = None
            weight.data = weight.data.to(dtype)

    @torch.no_grad()
    def refresh(self, model: Any) -> None:
        """Take over what `model` has learned."""
        for mine, theirs in zip(self.model.parameters(), model.parameters(), strict=True):
            if mine is not theirs:
                mine.copy_(theirs)
