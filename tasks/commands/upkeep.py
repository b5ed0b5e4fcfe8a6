"""`rlver doctor`, `clean`: the folder and the machine in order."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import environment

BASE = Path("models/base")


def register(app: typer.Typer) -> None:
    for command in (doctor, clean):
        app.command()(command)


def doctor(
    live: Annotated[bool, typer.Option("--live", help="Also compare the vLLM server with the model, through a change of weights.")] = False,
    model: Annotated[Path, typer.Option(help="--live: the policy to compare with, of the kind that is served.")] = BASE,
    fetch: Annotated[
        list[str] | None, typer.Option("--fetch", metavar="NAME", help="Fetch the weights of this package, and check nothing. Repeatable.")
    ] = None,
) -> None:
    """Check versions, disk, memory, GPU, weights, folders, locks, servers and endpoints; every problem comes with what to do."""
    if model != BASE and not live:
        raise ValueError("--model is for --live")
    root, _ = environment.opened()
    if fetch:
        from rlver.components.domain.packages import fetch_weights

        for name in fetch:
            typer.echo(f"{name}: {fetch_weights(name)}")
        return
    from rlver.tasks.commands.doctor import examine, examine_live

    checks = [*examine(root), *([examine_live(root, model)] if live else [])]
    for check in checks:
        typer.echo(f"{'ok ' if check.good else 'BAD'}  {check.subject}: {check.finding}")
        if not check.good:
            typer.echo(f"     -> {check.remedy}")
    if bad := sum(not check.good for check in checks):
        typer.echo(f"\n{bad} of {len(checks)} checks failed")
        raise typer.Exit(1)
    typer.echo(f"\nall {len(checks)} checks passed")


def clean(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
) -> None:
    """Remove what can be made again: checkpoints of unfinished trainings, unfinished dialogues, caches. Shows it first and asks."""
    from rlver.tasks.commands.clean import removable, remove

    root = environment.project_root()
    items = removable(root)
    if not items:
        typer.echo("nothing to remove")
        return
    for item in items:
        typer.echo(f"{item.size / 2**20:9.1f} MiB  {item.path.relative_to(root)}  ({item.cost})")
    if dry_run or not (yes or typer.confirm(f"Remove these {len(items)}?")):
        typer.echo("nothing was removed")
        return
    typer.echo(f"{remove(root, items) / 2**20:.1f} MiB free again")
