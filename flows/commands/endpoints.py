"""Options of every command that asks a chat endpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from rlver.tasks.runtime import environment

Budget = Annotated[
    float | None, typer.Option("--budget", metavar="MONEY", min=0, help="Stop before the calls to a chat endpoint could cost more in all.")
]
Replay = Annotated[bool, typer.Option("--replay", help="Take the answers of chat endpoints from those stored; ask nobody.")]


def use(budget: float | None, replay: bool) -> None:
    """For this process and its children."""
    if budget is not None:
        environment.set_budget(budget)
    if replay:
        environment.set_replay()
