"""`rlver rollback`: which policy is the champion (`promote` is a flow). `publish`: a policy for others. `mlflow …`: what MLflow gets apart from pipeline runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import environment

mlflow = typer.Typer(no_args_is_help=True, help="Send runs that MLflow has missed; show transcripts as sessions of traces.")


def register(app: typer.Typer) -> None:
    for command in (rollback, publish):
        app.command()(command)
    app.add_typer(mlflow, name="mlflow")


def rollback() -> None:
    """Give the champion's place back to the one before it."""
    root = environment.project_root()

    from rlver.tasks.tracking.registry import ModelRegistry

    withdrawn, champion = ModelRegistry(environment.prepare(root).tracking_uri).roll_back()
    typer.echo(f"{champion} is the champion again; {withdrawn} no longer is")


def publish(
    variant: Annotated[str, typer.Argument(help="A trained variant of any pipeline but the paper's, e.g. grpo-think.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="A new folder.", show_default="published/VARIANT")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="OWNER/NAME", help="Its name on the Hugging Face hub.")] = None,
    push: Annotated[bool, typer.Option("--push", help="Send it there. Without, nothing leaves this machine.")] = False,
    public: Annotated[bool, typer.Option("--public", help="Make new repositories public.")] = False,
) -> None:
    """Write a policy as a folder that others can use, with its card, its dialogues and personas, and send it to the hub if asked."""
    if to is not None:
        _check_hub_name(to)
    if push and to is None:
        raise ValueError("--push needs --to OWNER/NAME")
    if public and not push:
        raise ValueError("--public is for --push: without, nothing leaves this machine")
    root = environment.project_root()

    from rlver.tasks.tracking import publishing

    folder = out or root / "published" / variant
    for path in publishing.write(publishing.publication(root, variant), folder, to or variant):
        typer.echo(f"{path.stat().st_size:>13,}  {path.relative_to(folder)}")
    if push and to:
        for address in publishing.push(folder, to, public):
            typer.echo(address)
    else:
        typer.echo(f"{folder} is ready; nothing was sent: --push --to OWNER/NAME would" + (f" send it to {to}" if to else ""))


def _check_hub_name(name: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        if "/" not in name:
            raise HFValidationError("it has no owner")
        validate_repo_id(name)
    except HFValidationError as error:
        raise ValueError(f"--to {name!r}: expected OWNER/NAME as the Hugging Face hub takes it: {error}") from error


@mlflow.command()
def sync(
    experiment: Annotated[str | None, typer.Option(metavar="NAME", help="Log what this DVC experiment found, and nothing else.")] = None,
) -> None:
    """Send what waits in spool/, and log results on disk that no run holds yet."""
    root, where = environment.opened()
    if experiment:
        from rlver.tasks.tracking.experiments import log_experiment

        typer.echo(log_experiment(root, where.tracking_uri, experiment))
        return
    from rlver.tasks.tracking import recorder

    typer.echo(recorder.sync(root, where.tracking_uri))


@mlflow.command()
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
