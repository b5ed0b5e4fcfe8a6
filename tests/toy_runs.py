"""The flow `reproduce` over the toy project, and what its stages noted in ran.log."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def run(**parameters: Any) -> Any:
    from rlver.flows.reproduce import reproduce

    return reproduce(**parameters, return_state=True)


def ran(root: Path) -> list[str]:
    """What ran since it was last asked."""
    log = root / "ran.log"
    names = log.read_text().split() if log.exists() else []
    log.unlink(missing_ok=True)
    return names
