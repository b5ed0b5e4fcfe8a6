"""`rlver simulator acts`: how well the scripted user recognises what a reply does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime.options import PARAMS, Params, simulator_commands


def register(app: typer.Typer) -> None:
    simulator_commands(app).command()(acts)


def acts(
    labels: Annotated[
        list[Path] | None, typer.Argument(help="Labelled replies (YAML lists of user, reply, acts); default: those that come along.")
    ] = None,
    mistakes: Annotated[bool, typer.Option("--mistakes", help="Also list every reply that is not read as labelled.")] = False,
    params: Params = PARAMS,
) -> None:
    """Measure how well the scripted user recognises what a reply does: precision, recall and F1 of every dialogue act."""
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.studies.acts import detection

    styles = detection.labelled(labels or [])
    typer.echo(detection.report(styles, load_settings(params)))
    if mistakes:
        typer.echo(f"\n{detection.mistakes(styles)}")
