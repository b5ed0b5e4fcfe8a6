"""`rlver score`, `rlver compare`: from transcripts to numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, Params

_PERSONAS = "The personas file, for classes and scenarios. [data/personas/test.jsonl, if it is there]"


def register(app: typer.Typer) -> None:
    for command in (score, compare):
        app.command()(command)


def score(
    transcripts: Annotated[Path, typer.Argument(help="A transcript file, or a variant's name.")],
    base: Annotated[Path | None, typer.Option("--base", help="Transcripts (or variant) to pair with, persona by persona.")] = None,
    personas: Annotated[Path | None, typer.Option("--personas", help=_PERSONAS)] = None,
    out: Annotated[Path | None, options.out("Also write all metrics to this JSON file.", options.FILE_OR_STREAM)] = None,
    params: Params = PARAMS,
) -> None:
    """Score a transcript file: mean final emotion, success and failure rates, with 95% confidence intervals."""
    from rlver.tasks.commands.scores import score as measure

    typer.echo(measure(transcripts, base, personas, out, params))


def compare(
    files: Annotated[list[Path], typer.Argument(metavar="A [B …]", help="Transcript files, or names of variants.")],
    published: Annotated[
        bool, typer.Option("--published", help="Beside the published scores of the SAGE paper, which have no CI.")
    ] = False,
    personas: Annotated[Path | None, typer.Option("--personas", help=_PERSONAS)] = None,
    params: Params = PARAMS,
) -> None:
    """Put policies on a leaderboard with 95% intervals; of two, also the paired differences on the personas they share, b minus a."""
    from rlver.tasks.commands.scores import compare as contrast

    typer.echo(contrast(files, published, params, personas))
