"""`rlver simulator …`: the simulated users themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Examine the simulated users.", rich_markup_mode=None)


@app.callback()
def group() -> None:
    """Keeps `calibrate` a command of its own while it is the only one."""


@app.command()
def calibrate(
    model: Annotated[str, typer.Option("--model", help="The base policy: a folder in Hugging Face format, or hf:NAME.")] = "models/base",
    personas: Annotated[Path, typer.Option("--personas", help="The train personas (JSONL).")] = Path("data/personas/train.jsonl"),
    dialogues: Annotated[int, typer.Option("--dialogues", min=1, help="Dialogues with each version of the user.")] = 500,
    params: Annotated[Path, typer.Option("--params", help="The parameter file.")] = Path("params.yaml"),
) -> None:
    """Measure how demanding vanilla and challenging users are, beside the published figures; exit 1 when one is off."""
    from tasks import calibration

    figures = calibration.calibrate(model, personas, dialogues, params)
    typer.echo(calibration.table(figures))
    typer.echo(calibration.verdict(figures))
    if any(figure.is_off for figure in figures):
        raise typer.Exit(1)
