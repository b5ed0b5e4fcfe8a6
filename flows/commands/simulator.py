"""`rlver simulator …`: the simulated users themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import options

app = typer.Typer(no_args_is_help=True, help="Examine the simulated users.", rich_markup_mode=None)


@app.command()
def calibrate(
    model: Annotated[str, typer.Option("--model", help="The base policy: a folder in Hugging Face format, or hf:NAME.")] = "models/base",
    personas: Annotated[Path, typer.Option("--personas", help="The train personas (JSONL).")] = Path("data/personas/train.jsonl"),
    dialogues: Annotated[int, typer.Option("--dialogues", min=1, help="Dialogues with each version of the user.")] = 500,
    variant: Annotated[str, typer.Option("--variant", help="Overlay that names the users and the policy's way to speak.")] = "base",
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: Annotated[Path, typer.Option("--params", help="The parameter file.")] = Path("params.yaml"),
) -> None:
    """Measure how demanding vanilla and challenging users are, beside the published figures; exit 1 when one is off.

    Of LLM users, who mark no cues, there is strategy acceptance only."""
    options.limit_endpoints(budget, replay)
    from rlver.tasks.studies.calibration import calibration

    figures = calibration.calibrate(model, personas, dialogues, params, variant)
    typer.echo(calibration.table(figures))
    typer.echo(calibration.verdict(figures))
    if any(figure.is_off for figure in figures):
        raise typer.Exit(1)


@app.command()
def acts(
    labels: Annotated[
        list[Path] | None, typer.Argument(help="Labelled replies (YAML lists of user, reply, acts); default: those that come along.")
    ] = None,
    mistakes: Annotated[bool, typer.Option("--mistakes", help="Also list every reply that is not read as labelled.")] = False,
    params: Annotated[Path, typer.Option("--params", help="The parameter file.")] = Path("params.yaml"),
) -> None:
    """Measure how well the scripted user recognises what a reply does: precision, recall and F1 of every dialogue act."""
    from rlver.tasks.studies.acts import command as act_labels

    styles = act_labels.labelled(labels or [])
    typer.echo(act_labels.report(styles, params))
    if mistakes:
        typer.echo(f"\n{act_labels.mistakes(styles)}")
