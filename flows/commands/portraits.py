"""`rlver portrait`, `rlver judge`: how a policy supports people, counted from dialogue acts or marked by a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rlver.tasks.runtime import options

Params = Annotated[Path, typer.Option("--params", help="The parameter file.")]
Out = Annotated[Path | None, options.out("Also write everything to this JSON file.", options.FILE_OR_STREAM)]
PARAMS = Path("params.yaml")


def register(app: typer.Typer) -> None:
    for command in (portrait, judge):
        app.command()(command)


def portrait(
    files: Annotated[
        list[Path], typer.Argument(metavar="A [B …]", help="Transcript files or variants; checkpoints in order show a training.")
    ],
    out: Out = None,
    params: Params = PARAMS,
) -> None:
    """Estimate capabilities, cognition, strategies, acceptance and behaviour from transcripts alone, side by side, with 95% intervals."""
    from rlver.tasks.studies.judge.command import portraits

    typer.echo(portraits(files, out, params))


def judge(
    transcripts: Annotated[Path, typer.Argument(help="A transcript file, or a variant's name.")],
    backend: Annotated[
        Literal["acts", "llm"], typer.Option(help="acts: count dialogue acts, an estimate | llm: a model behind the endpoint marks.")
    ] = "acts",
    model: Annotated[str | None, typer.Option("--model", help="llm: the model that judges, in place of judge.model.")] = None,
    out: Out = None,
    replay: options.Replay = False,
    budget: options.Budget = None,
    params: Params = PARAMS,
) -> None:
    """Mark the five capabilities of every dialogue from 1 to 5, and place the policy on the cognition map."""
    from rlver.tasks.studies.judge import command as judging

    if backend == "acts":
        if model or replay or budget is not None:
            raise ValueError("--model, --replay and --budget are for --backend llm")
        typer.echo(judging.portraits([transcripts], out, params))
        return
    options.limit_endpoints(budget, replay)
    typer.echo(judging.judged(transcripts, model, out, params))
