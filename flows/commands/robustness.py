"""`rlver robustness`, `rlver consistency`: does a score hold for other users, and does an appraiser hold to its own word?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, TEST_PERSONAS, Difficulty, Personas, Variant
from rlver.tasks.runtime.options import ParamsAndOverlays as Params


def register(app: typer.Typer) -> None:
    for command in (robustness, consistency):
        app.command()(command)


def robustness(
    policy: Annotated[
        list[str],
        typer.Option(
            "--policy",
            metavar="[VARIANT=]POLICY",
            help="A model folder, hf:NAME, openai:MODEL or vllm:URL; VARIANT: the overlay it is spoken with (default: of its name). Repeatable.",
        ),
    ],
    shifts: Annotated[
        list[str] | None, typer.Option("--shifts", metavar="NAME", help="Only these shifts, e.g. typos,unseen-cues. Repeatable.")
    ] = None,
    second_opinion: Annotated[
        list[str] | None,
        typer.Option(
            "--second-opinion",
            metavar="APPRAISER",
            help="scripted:DIFFICULTY, llm, distilled:FOLDER, or the unshifted transcripts as appraised by another (a file or folder). Repeatable.",
        ),
    ] = None,
    personas: Personas = TEST_PERSONAS,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N personas.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Dialogues with each persona (default: evaluation.repeats).")] = None,
    difficulty: Difficulty = None,
    transcripts: Annotated[Path, typer.Option("--transcripts", help="Where the dialogues are kept.")] = Path("transcripts/robustness"),
    out: Annotated[Path, options.out("The JSON file with all figures.", options.FILE_OR_STREAM)] = Path("metrics/robustness.json"),
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: Params = PARAMS,
) -> None:
    """Let policies talk with the same users in other words, with other stories, and see what is left of the score; exit 1 when a shift
    could not be measured. Finished shifts are kept: run it again to go on."""
    options.limit_endpoints(budget, replay)
    from rlver.tasks.studies.robustness.command import robustness as measure

    text, complete = measure(policy, _split(shifts), second_opinion or [], personas, limit, repeats, difficulty, transcripts, out, params)
    typer.echo(f"{text}\n\n{out}")
    if not complete:
        raise typer.Exit(1)


def consistency(
    transcripts: Annotated[Path, typer.Argument(help="A transcript file; its words are what is appraised.")],
    appraiser: Annotated[
        str, typer.Option("--appraiser", metavar="KIND", help="scripted[:DIFFICULTY], llm[:DIFFICULTY] or distilled:FOLDER.")
    ] = "scripted",
    times: Annotated[int, typer.Option("--times", min=2, help="How often each reply is asked about, the first time included.")] = 5,
    personas: Personas = TEST_PERSONAS,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N dialogues.")] = None,
    out: Annotated[Path | None, options.out("Also write all figures to this JSON file.", options.FILE_OR_STREAM)] = None,
    variant: Variant = None,
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: Params = PARAMS,
) -> None:
    """Ask an appraiser about the same replies again: as they are, in a reordered context, about the same person in other words."""
    options.limit_endpoints(budget, replay)
    from rlver.tasks.studies.consistency.command import examine

    typer.echo(examine(transcripts, appraiser, times, personas, limit, out, variant, params))


def _split(values: list[str] | None) -> list[str]:
    """`--shifts a --shifts b` and `--shifts a,b` are the same."""
    return [part for value in values or [] for part in value.split(",") if part]
