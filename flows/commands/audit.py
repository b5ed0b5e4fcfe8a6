"""`rlver audit`: is the score earned or gamed?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import options

TEST_PERSONAS = Path("data/personas/test.jsonl")


def register(app: typer.Typer) -> None:
    app.command()(audit)


def audit(
    policies: Annotated[list[Path], typer.Argument(metavar="TRANSCRIPTS|VARIANT…", help="Transcript files, or names of variants.")],
    base: Annotated[
        Path | None, typer.Option("--base", help="The base's transcripts (default: the variant base, if there is one).")
    ] = None,
    log: Annotated[Path | None, typer.Option("--log", help="The train.jsonl of the policy (a variant's own is found).")] = None,
    second: Annotated[
        Path | None, typer.Option("--second", help="The same dialogues, base included, as another appraiser sees them (`rlver appraise`).")
    ] = None,
    personas: Annotated[Path | None, typer.Option("--personas", help="The personas file, for the second appraiser.")] = None,
    probe: Annotated[bool, typer.Option("--probe", help="Also let cheating policies talk with the simulated user.")] = False,
    probe_personas: Annotated[Path, typer.Option("--probe-personas", help="Whom the cheats talk with (JSONL).")] = TEST_PERSONAS,
    out: Annotated[Path | None, options.out("Also write every check to this JSON file.", options.FILE_OR_STREAM)] = None,
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: Annotated[Path, typer.Option("--params", help="The parameter file.")] = Path("params.yaml"),
) -> None:
    """Look for the known ways to game the reward; exit status 1 when a limit of `audit` in params.yaml is clearly broken."""
    options.limit_endpoints(budget, replay)
    from rlver.tasks.studies.audit.command import audit_files

    text, is_clean = audit_files(policies, base, log, second, personas, probe_personas if probe else None, out, params)
    typer.echo(text)
    if not is_clean:
        raise typer.Exit(1)
