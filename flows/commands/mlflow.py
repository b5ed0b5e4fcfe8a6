"""`rlver mlflow sync`, `rlver mlflow trace`: what MLflow gets apart from pipeline runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import environment

app = typer.Typer(no_args_is_help=True, help="Send runs that MLflow has missed; show transcripts as sessions of traces.")


@app.command()
def sync() -> None:
    """Send what waits in spool/, and log results on disk that no run holds yet."""
    root, where = environment.opened()
    from rlver.tasks.tracking import reports as commands

    typer.echo(commands.sync(root, where.tracking_uri))


@app.command()
def trace(
    transcripts: Annotated[list[Path], typer.Argument(help="Transcript files, also of imported dialogues.")],
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many dialogues of each file.")] = None,
) -> None:
    """Log dialogues as MLflow sessions: a trace a turn, with the appraisal of every reply."""
    root, where = environment.opened()
    from rlver.tasks.tracking import reports as commands

    for line in commands.trace(root, where.tracking_uri, transcripts, limit):
        typer.echo(line)
