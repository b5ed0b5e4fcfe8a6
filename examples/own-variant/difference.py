"""What a variant changes: `python examples/own-variant/difference.py VARIANT`, in the project's folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from rlver.components.settings.settings import load_settings


def differences(before: BaseModel, after: BaseModel, above: str = "") -> Iterator[str]:
    for key, value in before:
        other = getattr(after, key)
        if isinstance(value, BaseModel):
            yield from differences(value, other, f"{above}{key}.")
        elif value != other:
            yield f"{above}{key}: {value} -> {other}"


if __name__ == "__main__":
    params, variant = Path("params.yaml"), sys.argv[1]
    print("\n".join(differences(load_settings(params), load_settings(params, variant))))
