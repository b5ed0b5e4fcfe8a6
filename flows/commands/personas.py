"""`rlver personas …`: compose, import, check and announce personas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Compose, import, check and announce personas.", rich_markup_mode=None)


@app.command()
def generate(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for train.jsonl and test.jsonl.")],
    train: Annotated[int, typer.Option(help="Personas to train on.")] = 500,
    test: Annotated[int, typer.Option(help="Personas to test on; they share no scenario with the others.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = 7,
) -> None:
    """Compose personas from the scenario library."""
    from tasks.persona_commands import generate as compose

    for path, count in compose(out, train, test, seed).items():
        typer.echo(f"{path}: {count} personas")


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="RLVER/SAGE profiles (JSONL, also .gz) or personas in this project's schema.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The persona file to write.")],
    split: Annotated[str, typer.Option(help="The split the personas belong to: train or test.")] = "train",
) -> None:
    """Bring foreign persona profiles into this project's schema; nothing is written when any row is bad."""
    from components.personas.rows import InvalidPersonas
    from tasks.persona_commands import import_personas

    try:
        typer.echo(f"{out}: {import_personas(source, out, split)} personas")
    except InvalidPersonas as error:
        for problem in error.problems:
            typer.echo(problem, err=True)
        raise ValueError(f"{source}: {len(error.problems)} problems, nothing was written") from error


@app.command()
def validate(files: Annotated[list[Path], typer.Argument(help="Persona files (JSONL).")]) -> None:
    """Check every row of persona files; every problem is shown with file, line, field and reason."""
    from tasks.persona_commands import validate as check

    good = True
    for path in files:
        problems, count = check(path)
        for problem in problems:
            typer.echo(problem, err=True)
        good &= not problems
        typer.echo(f"{path}: {f'{len(problems)} problems' if problems else f'{count} personas, all valid'}")
    if not good:
        raise typer.Exit(1)


@app.command()
def landed(file: Annotated[Path, typer.Argument(help="The persona file that has arrived.")]) -> None:
    """Announce new persona data: starts the deployment that waits for it (see `rlver serve-deployments`)."""
    from tasks import environment

    environment.require_prefect_server(environment.project_root())
    from flows.deployments import LANDED, personas_landed

    typer.echo(f"emitted {LANDED} for {file} (MD5 {personas_landed(file)})")
