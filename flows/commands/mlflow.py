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
    from rlver.tasks.tracking import recorder

    typer.echo(recorder.sync(root, where.tracking_uri))


@app.command()
def trace(
    transcripts: Annotated[list[Path], typer.Argument(help="Transcript files, also of imported dialogues.")],
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many dialogues of each file.")] = None,
) -> None:
    """Log dialogues as MLflow sessions: a trace a turn, with the appraisal of every reply."""
    root, where = environment.opened()
    from rlver.tasks.tracking.store import open_store, readable
    from rlver.tasks.tracking.traces import log_file

    with readable():
        store = open_store(root, where.tracking_uri)
    for path in transcripts:
        with readable():
            sessions = log_file(store, path, run=None, most=limit)
        typer.echo(f"{path}: {len(sessions)} dialogues are sessions of the experiment's traces")
