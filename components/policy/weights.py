"""A policy's weights as files, on their way from a trainer to a server.

One file, replaced as a whole: who opens it reads the old weights or the new ones. Adapters are added in, critics stay at home.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

FILE = "model.safetensors"


def version_of(folder: Path) -> str:
    """Names the weights in `folder` and when they were written; the same function is in tasks/serving/worker.py."""
    files = sorted(folder.glob("*.safetensors"))
    return f"{folder}@{max((file.stat().st_mtime_ns for file in files), default='nothing')}"


def write_weights(model: Any, folder: Path) -> Path:
    """Put the present weights of a causal language model into `folder`, which is returned."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    neighbour = folder / f".{FILE}"
    save_file({name: tensor.contiguous() for name, tensor in plain_weights(model).items()}, neighbour)
    os.replace(neighbour, folder / FILE)
    return folder


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


def plain_weights(model: Any) -> dict[str, Any]:
    """Name -> tensor, as `save_pretrained` would name them: adapters added in, a tied head left out."""
    own = (f"{model.base_model_prefix}.", *(() if model.config.tie_word_embeddings else ("lm_head.",)))
    weights = {
        name.replace(".base_layer.", "."): tensor.detach()
        for name, tensor in model.state_dict().items()
        if name.startswith(own) and ".lora_" not in name
    }
    for name, module in model.named_modules():
        if hasattr(module, "get_delta_weight"):
            for adapter in module.active_adapters:
                weights[f"{name}.weight"] = weights[f"{name}.weight"] + module.get_delta_weight(adapter).detach()
    return weights
