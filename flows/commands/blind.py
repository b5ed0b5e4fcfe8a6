"""`rlver blind`: people compare two policies without knowing which is which."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rlver.tasks.runtime import options

PARAMS = Path("params.yaml")


class _CompareByDefault(TyperGroup):
    """`rlver blind A B` is `rlver blind compare A B`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["compare", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_CompareByDefault,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="People compare two policies on a local web page without knowing which is which. `rlver blind A B` is `rlver blind compare A B`.",
)

Answers = Annotated[
    Path | None, typer.Option("--answers", help="The file of answers; one that exists is gone on with. [blind/A-vs-B.jsonl]")
]
Raters = Annotated[str | None, typer.Option("--raters", help="Names, with commas: nobody else may answer. Default: anybody.")]
Port = Annotated[int, typer.Option("--port", help="Another free one is taken if it is in use.")]
Host = Annotated[str, typer.Option("--host", help="An address of this machine; others than loopback ask for a key, but are not encrypted.")]
Personas = Annotated[
    Path | None,
    typer.Option("--personas", help="Whose situations are shown as ideas for a talk. [data/personas/test.jsonl, if it is there]"),
]
Variants = Annotated[
    tuple[str, str] | None, typer.Option("--variants", metavar="A B", help="Overlays params/A.yaml and params/B.yaml, for the talks.")
]
Params = Annotated[Path, typer.Option("--params", help="The parameter file; its section blind says how many pairs.")]


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A transcript file, or a variant's name.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another, with the same personas.")],
    talk: Annotated[
        tuple[str, str] | None,
        typer.Option("--talk", metavar="A B", help="Also talk with two models: folders, hf:NAME, openai:MODEL or vllm:URL."),
    ] = None,
    variants: Variants = None,
    answers: Answers = None,
    raters: Raters = None,
    personas: Personas = None,
    host: Host = "127.0.0.1",
    port: Port = 7500,
    budget: options.Budget = None,
    params: Params = PARAMS,
) -> None:
    """Show pairs of dialogues of the same persona, in random order and on random sides, and keep what people prefer."""
    _hold_open((a, b), talk, variants, answers, raters, personas, host, port, budget, params)


@app.command()
def talk(
    a: Annotated[str, typer.Argument(metavar="A", help="A model: a folder, hf:NAME, openai:MODEL or vllm:URL.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    variants: Variants = None,
    answers: Answers = None,
    raters: Raters = None,
    personas: Personas = None,
    host: Host = "127.0.0.1",
    port: Port = 7500,
    budget: options.Budget = None,
    params: Params = PARAMS,
) -> None:
    """Let people talk with two hidden models side by side, and keep which they prefer."""
    _hold_open(None, (a, b), variants, answers, raters, personas, host, port, budget, params)


@app.command()
def report(
    answers: Annotated[Path, typer.Argument(help="The file of answers.")],
    transcripts: Annotated[
        list[Path] | None,
        typer.Option("--transcripts", help="Take the emotions from these files, as of another appraiser (once for each)."),
    ] = None,
    out: Annotated[Path | None, options.out("Where to write, without the ending. [beside the answers]", options.ANY)] = None,
    track: Annotated[bool, typer.Option("--mlflow/--no-mlflow", help="Also into MLflow.")] = True,
    params: Params = PARAMS,
) -> None:
    """Who is preferred, how far people agree, and whether the simulator's emotion says the same; all with 95% intervals."""
    from rlver.tasks.studies.blind import command as commands

    typer.echo(commands.report(answers, transcripts or [], out, track, params, lambda line: typer.echo(line, err=True)))


def _hold_open(
    transcripts: tuple[Path, Path] | None,
    policies: tuple[str, str] | None,
    variants: tuple[str, str] | None,
    answers: Path | None,
    raters: str | None,
    personas: Path | None,
    host: str,
    port: int,
    budget: float | None,
    params: Path,
) -> None:
    options.limit_endpoints(budget, False)
    from rlver.tasks.studies.blind import command as commands

    names = None if raters is None else [name for name in raters.split(",") if name.strip()]
    try:
        commands.hold_open(transcripts, policies, variants, answers, names, personas, host, port, params, typer.echo)
    except KeyboardInterrupt:
        typer.echo("stopped")
