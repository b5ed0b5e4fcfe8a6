"""Loading and saving a policy: Hugging Face folders, safetensors only, no remote code."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

disable_progress_bar()  # type: ignore[no-untyped-call]  # one bar per loaded or saved folder would drown the stage's own progress


def load_policy(path: Path | str) -> tuple[Any, Any]:
    """(model, tokenizer) of a local folder or a hub name, in float32: in bfloat16 an update of 1e-6 would leave most weights as they are.

    Raises ValueError in one line when there is no model at `path`, or none that was made for conversation.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        tokenizer = load_tokenizer(path)
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, use_safetensors=True, trust_remote_code=False)
    except (OSError, ValueError, SafetensorError) as error:
        raise ValueError(f"cannot load a policy from {path}: {str(error).splitlines()[0]}") from error
    if not tokenizer.chat_template:
        raise ValueError(f"{path}: the tokenizer has no chat template, so this is no chat model; take its Instruct or Chat version")
    return model.to(device), tokenizer


def check_context(model: Any, max_context_tokens: int) -> None:
    """Raise ValueError when the model cannot read as many tokens: it would go on, and say nothing sensible."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is not None and max_context_tokens > positions:
        raise ValueError(f"policy.max_context_tokens is {max_context_tokens}, but the model reads {positions} tokens at most; lower it")


def load_tokenizer(path: Path | str) -> Any:
    """Raises OSError and ValueError as transformers does."""
    return AutoTokenizer.from_pretrained(path, trust_remote_code=False)


def save_policy(model: Any, tokenizer: Any, path: Path) -> None:
    """Write weights (safetensors), configuration, tokenizer and chat template; `path` holds a whole policy, or none for a moment where
    there was one before."""
    part = path.with_name(f".{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        model.save_pretrained(part, safe_serialization=True)
        tokenizer.save_pretrained(part)
        shutil.rmtree(path, ignore_errors=True)
        part.replace(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
