"""A model of the hub, by its name there: files that hold weights, configuration and tokenizer, and no code.

NAME@REVISION is one version of it: a commit hash (always the same), a tag or a branch. As part of the name it is part of whatever depends on it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rlver.components.domain.kinds import ModelSource

DOWNLOADED = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")


_REVISION = re.compile(r"\w[\w.+/-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def without_revision(name: str) -> tuple[str, str | None]:
    """(name, revision) of a folder or of NAME[@REVISION]. Raises ValueError for a revision that is none, or of a folder, which has none."""
    name = name.removeprefix("hf:")
    plain, at, revision = name.rpartition("@")
    if not at or Path(name).exists():
        return name, None
    if Path(plain).exists():
        raise ValueError(f"{name}: a revision is for names of the hub, and {plain} is a folder; write it without @{revision}")
    if not plain or not _REVISION.fullmatch(revision) or ".." in revision:
        raise ValueError(f"{name}: behind the @ stands a commit hash, a tag or a branch of the hub, got {revision!r}")
    return plain, revision


def of_hub(name: str, parameters: Any = None) -> Path:
    """The local folder `name`, or that of NAME[@REVISION] in the hub's cache. Raises what the hub's client raises of one that it does not know."""
    name, revision = without_revision(name)
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(name, revision=revision, allow_patterns=list(DOWNLOADED), ignore_patterns=["*/*", "consolidated*"]))


def commit_of(folder: Path) -> str | None:
    """The commit of a model that `of_hub` fetched, so that one named without a revision can be had again; None for a folder of your own."""
    return folder.name if folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name) else None


SOURCE = ModelSource(of_hub)
