"""`rlver simulator …`: the simulated users themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands import endpoints

app = typer.Typer(no_args_is_help=True, help="Examine the simulated users.", rich_markup_mode=None)


@app.callback()
def group() -> None:
    """Keeps `calibrate` a command of its own while it is the only one."""


@app.command()
def calibrate(
    model: Annotated[str, typer.Option("--model", help="The base policy: a folder in Hugging Face format, or hf:NAME.")] = "models/base",
    personas: Annotated[Path, typer.Option("--personas", help="The train personas (JSONL).")] = Path("data/personas/train.jsonl"),
    dialogues: Annotated[int, typer.Option("--dialogues", min=1, help="Dialogues with each version of the user.")] = 500,
    variant: Annotated[str, typer.Option("--variant", help="Overlay that names the users and the policy's way to speak.")] = "base",
    budget: endpoints.Budget = None,
    replay: endpoints.Replay = False,
    params: Annotated[Path, typer.Option("--params", help="The parameter file.")] = Path("params.yaml"),
) -> None:
    """Measure how demanding vanilla and challenging users are, beside the published figures; exit 1 when one is off.

    Of LLM users, who mark no cues, there is strategy acceptance only."""
    endpoints.use(budget, replay)
    from tasks import calibration

    figures = calibration.calibrate(model, personas, dialogues, params, variant)
    typer.echo(calibration.table(figures))
    typer.echo(calibration.verdict(figures))
    if any(figure.is_off for figure in figures):
        raise typer.Exit(1)
