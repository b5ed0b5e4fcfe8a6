"""Adapters in place of all weights (LoRA, Hu et al. 2021: small matrices beside every linear layer), and checkpoints of either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from rlver.components.policy.load import load_model, load_policy, refuse_not_finite
from rlver.components.policy.precision import computes_in_bfloat16, hold_in_bfloat16, is_held_in_bfloat16


def lora(rank: int) -> Any:
    """peft's configuration for adapters of `rank` on every linear layer but the head, scaled by 2; None for rank 0: all weights train."""
    from peft import LoraConfig

    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM") if rank else None


def load_base(base: Path, frozen_precision: str) -> tuple[Any, Any]:
    """(model, tokenizer) of the folder `base`, its matrices in bfloat16 where `train.frozen_precision` means that. Raises as `load_policy` does."""
    if not computes_in_bfloat16(frozen_precision):
        return load_policy(base)
    model, tokenizer = load_policy(base, device="cpu")  # a GPU may have no room for it in float32
    hold_in_bfloat16(model)
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def inner(model: Any) -> Any:
    """The causal language model itself, whose layers may have adapters in them."""
    return model.get_base_model() if hasattr(model, "peft_config") and hasattr(model, "get_base_model") else model


def merged(model: Any, base: Path) -> Any:
    """The language model with its adapters, if any, added into the weights in float32; `model` is of no use afterwards.

    Weights that are held in bfloat16 may have lost digits, so all are read again from the folder `base`, into the memory of the CPU.
    """
    if inner(model) is model:
        return model
    if not is_held_in_bfloat16(inner(model)):
        return model.merge_and_unload()
    for weight in model.parameters():
        if not weight.requires_grad:
            weight.data = weight.new_empty(0)  # room for the other
    whole, _ = load_model(base, device="cpu")
    for name, module in inner(model).named_modules():
        if hasattr(module, "get_delta_weight"):
            for adapter in module.active_adapters:
                whole.get_submodule(name).weight.data += module.get_delta_weight(adapter).detach().cpu()
    return whole


def refuse_other_checkpoint(model: Any, checkpoint: Path) -> None:
    """Raise ValueError unless the safetensors files of a training's checkpoint hold just the tensors that `model` saves: all of a model,
    its critic included, or the adapters alone."""
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors import SafetensorError, safe_open

    pattern = "adapter_model.safetensors" if isinstance(model, PeftModel) else "model*.safetensors"
    own = get_peft_model_state_dict(model) if isinstance(model, PeftModel) else model.state_dict()
    wanted = {name: tuple(tensor.shape) for name, tensor in own.items() if name not in getattr(model, "all_tied_weights_keys", {})}
    found: dict[str, tuple[int, ...]] = {}
    for file in checkpoint.glob(pattern):
        try:
            with safe_open(file, framework="pt") as tensors:
                found |= {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118  # not iterable
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{file}: {error}") from error
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            there, asked = ("missing" if shape is None else list(shape) for shape in (found.get(name), wanted.get(name)))
            raise ValueError(
                f"{checkpoint}: {pattern}: the tensor {name} is {there}, the training has {asked}; delete this checkpoint to go on from an earlier one"
            )


class CheckpointsWithoutMoments(TrainerCallback):
    """A checkpoint's optimizer.pt then holds learning rates and options, and nothing of AdamW's two moments (train.checkpoint_optimizer: false).

    It is read like any other: schedule and random states go on as they were, the moments begin at zero.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        optimizer.optimizer.register_state_dict_post_hook(lambda _, saved: {**saved, "state": {}})  # of torch's, inside that of accelerate


class WholeCheckpoints:
    """For a trainer of transformers, named before it: goes on from a checkpoint of just what is trained, and from no other."""

    model: Any

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Raises ValueError for a checkpoint that does not hold just what is trained: transformers would only warn, and go on with the rest."""
        refuse_other_checkpoint(self.model, Path(resume_from_checkpoint))
        super()._load_from_checkpoint(resume_from_checkpoint, model)  # type: ignore[misc]  # of the trainer behind this class
        refuse_not_finite(self.model, resume_from_checkpoint)
