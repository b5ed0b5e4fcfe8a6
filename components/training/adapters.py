"""LoRA (Hu et al. 2021): training small matrices beside every linear layer in place of the layer itself."""

from __future__ import annotations

from typing import Any


def lora(rank: int) -> Any:
    """peft's configuration for adapters of `rank` on every linear layer but the head, scaled by 2; None for rank 0: all weights train."""
    from peft import LoraConfig

    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM") if rank else None


def inner(model: Any) -> Any:
    """The causal language model itself, whose layers may have adapters in them."""
    return model.get_base_model() if hasattr(model, "peft_config") and hasattr(model, "get_base_model") else model


def merged(model: Any) -> Any:
    """The language model with its adapters, if any, added into the weights."""
    return model.merge_and_unload() if inner(model) is not model else model
