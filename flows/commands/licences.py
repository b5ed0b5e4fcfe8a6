"""`rlver licences`: what the locked packages are licensed under."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from rlver.tasks.runtime import environment


def register(app: typer.Typer) -> None:
    app.command()(licences)


def licences(
    every: Annotated[bool, typer.Option("--all", help="List the permissive ones too.")] = False,
) -> None:
    """List the licences of the locked packages that ask for more than a mention, and those that nobody knows."""
    from rlver.tasks.commands.licences import of_locked

    found = of_locked(environment.project_root() / "constraints.txt")
    for one in found:
        if every or one.kind != "permissive":
            typer.echo(f"{one.kind:<13}  {one.package} {one.version}  {one.stated}")
    typer.echo(", ".join(f"{number} {kind}" for kind, number in Counter(one.kind for one in found).most_common()))
