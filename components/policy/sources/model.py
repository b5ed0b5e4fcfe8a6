"""A model of the hub, by its name there: files that hold weights, configuration and tokenizer, and no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlver.components.domain.kinds import ModelSource

DOWNLOADED = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")


def of_hub(name: str, parameters: Any = None) -> Path:
    """The folder of the hub's cache, or the local folder `name`. Raises what the hub's client raises of a name that it does not know."""
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(name, allow_patterns=list(DOWNLOADED), ignore_patterns=["*/*"]))


SOURCE = ModelSource(of_hub)
