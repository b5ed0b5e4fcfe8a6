"""`rlver score`, `rlver compare`: from transcripts to numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PARAMS = Path("params.yaml")


def register(app: typer.Typer) -> None:
    for command in (score, compare):
        app.command()(command)


def score(
    transcripts: Annotated[Path, typer.Argument(help="A transcript file, or a variant's name.")],
    base: Annotated[Path | None, typer.Option("--base", help="Transcripts (or variant) to pair with, persona by persona.")] = None,
    personas: Annotated[Path | None, typer.Option("--personas", help="The personas file, for the breakdown by class.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write all metrics to this JSON file.")] = None,
    params: Annotated[Path, typer.Option("--params", help="The parameter file.")] = PARAMS,
) -> None:
    """Score a transcript file: mean final emotion, success and failure rates, with 95% confidence intervals."""
    from tasks.score_commands import score as measure

    typer.echo(measure(transcripts, base, personas, out, params))


def compare(
    a: Annotated[Path, typer.Argument(help="A transcript file, or a variant's name.")],
    b: Annotated[Path, typer.Argument(help="The one to compare with it.")],
    params: Annotated[Path, typer.Option("--params", help="The parameter file.")] = PARAMS,
) -> None:
    """Compare two transcript files on the personas they share: paired differences, b minus a, with 95% intervals."""
    from tasks.score_commands import compare as contrast

    typer.echo(contrast(a, b, params))
