"""What a variant changes: `python examples/own-variant/difference.py VARIANT`, in the project's folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlver.components.settings.settings import load_settings


def differences(before: Mapping[str, Any], after: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key, value in before.items():
        if isinstance(value, Mapping):
            yield from differences(value, after[key], f"{above}{key}.")
        elif value != after[key]:
            yield f"{above}{key}: {value} -> {after[key]}"


if __name__ == "__main__":
    params, variant = Path("params.yaml"), sys.argv[1]
    print("\n".join(differences(load_settings(params).model_dump(), load_settings(params, variant).model_dump())))
