"""What a stage's calls to chat endpoints came to: a file under answers/, for trackers. No output of the stage, because the same results
cost nothing when they come from stored answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from components.files import write_json

COSTS = Path("answers") / "costs"


class Counted(Protocol):
    def summary(self) -> dict[str, float]: ...


def costs_file(output: Path) -> Path:
    """Of the run that made `output`, a path in the project."""
    return COSTS / f"{output.relative_to(output.anchor)}.json"


def write_costs(output: Path, by_role: Mapping[str, Counted | None]) -> None:
    """Write the sums of every connection by the role of its models; without any, take away what an earlier run left."""
    sums = {role: connection.summary() for role, connection in by_role.items() if connection is not None}
    if sums:
        write_json(costs_file(output), sums)
    else:
        costs_file(output).unlink(missing_ok=True)
