"""A policy's weights as files, on their way from a trainer to a server that samples with them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

FILE = "model.safetensors"


def version_of(folder: Path) -> str:
    """Names the weights in `folder` and when they were written; the same function is in tasks/runtime/serving/worker.py."""
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
                added = weights[f"{name}.weight"] + module.get_delta_weight(adapter).detach()
                weights[f"{name}.weight"] = added.cpu()  # a GPU need not hold all of them at once
    return weights
