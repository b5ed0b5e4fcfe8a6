"""What the forms of the deployments offer: the variants, stages and sweeps that the project has now.

A flow's module is imported long before anybody wants a form, and reading the graph takes a second or two: a form offers nothing, and
takes any text, until `offer` has read the project.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlver.tasks.graph import dvc, experiments

_offered: dict[str, list[str]] = {}


@dataclass(frozen=True)
class OneOf:
    """Mark of a text parameter, `Annotated[str, OneOf("variants")]`: the server refuses what its form does not offer."""

    names: str

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        schema: dict[str, Any] = handler(core_schema)
        return {**schema, "enum": _offered[self.names]} if _offered.get(self.names) else schema


def offer(root: Path) -> None:
    """Read what there is in the project. Raises GraphError."""
    steps = dvc.plan(root, all_pipelines=True)
    _offered["variants"] = ["all", *sorted({step.variant for step in steps if step.variant})]
    _offered["stages"] = sorted({name for step in steps for name in (step.group, step.name)})
    _offered["trained"] = sorted(dvc.trained(step.name for step in steps if step.pipeline == dvc.PIPELINE).values())
    _offered["sweeps"] = experiments.names(root)
