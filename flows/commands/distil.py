"""`rlver distil`, `fidelity`, `ask-unsure`: an appraiser learned from recorded dialogues, how far it agrees, and what to ask next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import options

PARAMS = Path("params.yaml")

Recorded = Annotated[list[Path], typer.Argument(help="Transcripts or recorded SAGE dialogues (JSONL, also .gz), one file a policy model.")]
Folder = Annotated[Path, options.out("The folder of the appraiser and its fidelity card.", options.FOLDER)]
Personas = Annotated[Path | None, typer.Option("--personas", help="The personas file, if the transcripts have one.")]
Params = Annotated[Path, typer.Option("--params", help="The parameter file.")]


def register(app: typer.Typer) -> None:
    app.command()(distil)
    app.command()(fidelity)
    app.command()(ask_unsure)


def distil(transcripts: Recorded, out: Folder, personas: Personas = None, params: Params = PARAMS) -> None:
    """Learn an appraiser from recorded dialogues with any user; tests it first on personas and models that it has not seen."""
    from rlver.tasks.studies.distil import command as distil_commands

    typer.echo(distil_commands.distil(transcripts, out, personas, params))


def fidelity(transcripts: Recorded, out: Folder, personas: Personas = None, params: Params = PARAMS) -> None:
    """How far learned appraisers agree with the recorded users, by cross-fitting over personas and policy models (long)."""
    from rlver.tasks.studies.distil import command as distil_commands

    typer.echo(distil_commands.cross_fit(transcripts, out, personas, params))


def ask_unsure(
    transcripts: Recorded,
    appraiser: Annotated[str, typer.Option("--appraiser", metavar="KIND", help="distilled:FOLDER: whose doubts are asked about.")],
    replies: Annotated[int, typer.Option("--replies", min=1, help="Ask about at most so many replies, whole dialogues of them.")],
    personas: Annotated[Path, typer.Option("--personas", help="The personas file; the LLM user must know whom to play.")],
    out: Annotated[Path, options.out("The recordings to write (JSONL); `rlver distil` learns from them.", options.FILE_OR_STREAM)],
    variant: Annotated[str | None, typer.Option("--variant", help="Take the parameters of this variant.")] = None,
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: Params = PARAMS,
) -> None:
    """Let the LLM user appraise the dialogues that a distilled appraiser is least sure of, within a budget."""
    options.limit_endpoints(budget, replay)
    from rlver.tasks.studies.distil import doubts as distil_active

    typer.echo(distil_active.ask_unsure(transcripts, appraiser, replies, personas, out, variant, params))
