"""Loading and saving a policy: Hugging Face folders, safetensors only, no remote code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

disable_progress_bar()  # type: ignore[no-untyped-call]  # one bar per loaded or saved folder would drown the stage's own progress


def load_policy(path: Path | str) -> tuple[Any, Any]:
    """(model, tokenizer) of a local folder or a hub name: float32 on the CPU, bfloat16 on a GPU.

    Raises ValueError in one line when there is no model at `path`.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, use_safetensors=True, trust_remote_code=False)
    except (OSError, ValueError, SafetensorError) as error:
        raise ValueError(f"cannot load a policy from {path}: {str(error).splitlines()[0]}") from error
    return model.to(device), tokenizer


def save_policy(model: Any, tokenizer: Any, path: Path) -> None:
    """Write weights (safetensors), configuration, tokenizer and chat template to `path`."""
    path.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(path, safe_serialization=True)
    tokenizer.save_pretrained(path)
