"""A policy's weights as files, on their way from a trainer to a server that samples with them.

Adapters are added in while the file is written, one matrix after the other: all of them together would be a second model.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "model.safetensors"
ADAPTERS = "adapter_model.safetensors"
_FORMATS = {"torch.float64": "F64", "torch.float32": "F32", "torch.float16": "F16", "torch.bfloat16": "BF16"}  # in the words of safetensors


@dataclass(frozen=True)
class PlainWeight:
    """One tensor as the trainer holds it, and the layer whose adapters are to be added to it, if any."""

    held: Any
    layer: Any = None

    def made(self) -> Any:
        """The tensor as it is to be sent, in the numbers of the held one: itself, or a new one with the adapters in it.

        A new one takes its own memory, and as much again while its adapters are multiplied.
        """
        made = self.held
        for adapter in self.layer.active_adapters if self.layer is not None else ():
            made = self.layer.get_delta_weight(adapter).detach().add_(made).to(made.dtype)
        return made


def version_of(folder: Path) -> str:
    """Names the weights in `folder` and when they were written; the same function is in tasks/runtime/serving/worker.py."""
    files = sorted(folder.glob("*.safetensors"))
    return f"{folder}@{max((file.stat().st_mtime_ns for file in files), default='nothing')}"


def write_weights(model: Any, folder: Path) -> Path:
    """Put the present weights of a causal language model into `folder`, which is returned. Each is made, written and let go."""
    folder.mkdir(parents=True, exist_ok=True)
    neighbour = folder / f".{FILE}"
    weights = plain_weights(model)
    with neighbour.open("wb") as file:
        file.write(_header(weights))
        for weight in weights.values():
            file.write(_bytes(weight.made()))
    os.replace(neighbour, folder / FILE)
    return folder


def write_adapters(model: Any, folder: Path) -> Path:
    """Put the present adapters of a causal language model alone into `folder`, which is returned, as peft saves them.

    Whoever looks finds the old ones or the new ones, never some of both.
    """
    from safetensors.torch import save_file

    part = folder.with_name(f".{folder.name}.part")
    part.mkdir(parents=True, exist_ok=True)
    ((adapter, config),) = model.peft_config.items()
    tensors = {
        f"base_model.model.{name.replace(f'.{adapter}.', '.')}": tensor.detach().contiguous()
        for name, tensor in model.state_dict().items()
        if name.startswith(f"{model.base_model_prefix}.") and ".lora_" in name
    }
    save_file(tensors, part / ADAPTERS, metadata={"format": "pt"})
    config.save_pretrained(part)
    put_in_place(part, folder)
    return folder


def _header(weights: Mapping[str, PlainWeight]) -> bytes:
    """The beginning of a safetensors file whose tensors follow in this order: the length of a JSON, and the JSON padded to 8 bytes."""
    told, end = dict[str, Any](), 0
    for name, weight in weights.items():
        begin, end = end, end + weight.held.nbytes
        told[name] = {"dtype": _FORMATS[str(weight.held.dtype)], "shape": list(weight.held.shape), "data_offsets": [begin, end]}
    text = json.dumps(told).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _bytes(tensor: Any) -> Any:
    """What numpy sees of a tensor's numbers; a copy only where they are not in a row in this machine's memory."""
    import torch

    return tensor.contiguous().cpu().reshape(-1).view(torch.uint8).numpy()


def put_in_place(part: Path, path: Path) -> None:
    """Give the folder `part` the name `path`. Raises OSError, and then all is as before.

    The folder that was there is `.NAME.old` until the new one is in its place: a process that is killed in between loses neither.
    """
    old = path.with_name(f".{path.name}.old")
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(old, ignore_errors=True)
            path.replace(old)
        part.replace(path)
    finally:
        if old.is_dir() and not path.is_dir():
            old.replace(path)
    shutil.rmtree(old, ignore_errors=True)


def plain_weights(model: Any) -> dict[str, PlainWeight]:
    """Name -> tensor, as `save_pretrained` would name them: with its adapters to be added in, a tied head left out."""
    own = (f"{model.base_model_prefix}.", *(() if model.config.tie_word_embeddings else ("lm_head.",)))
    layers = {f"{name}.weight": module for name, module in model.named_modules() if hasattr(module, "get_delta_weight")}
    plain = {
        name.replace(".base_layer.", "."): tensor.detach()
        for name, tensor in model.state_dict().items()
        if name.startswith(own) and ".lora_" not in name
    }
    return {name: PlainWeight(tensor, layers.get(name)) for name, tensor in plain.items()}
