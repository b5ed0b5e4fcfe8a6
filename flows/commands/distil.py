"""`rlver distil`, `rlver fidelity`: an appraiser learned from recorded dialogues, and how far it agrees with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PARAMS = Path("params.yaml")

Recorded = Annotated[list[Path], typer.Argument(help="Transcripts or recorded SAGE dialogues (JSONL, also .gz), one file a policy model.")]
Folder = Annotated[Path, typer.Option("--out", "-o", help="The folder of the appraiser and its fidelity card.")]
Personas = Annotated[Path | None, typer.Option("--personas", help="The personas file, if the transcripts have one.")]
Params = Annotated[Path, typer.Option("--params", help="The parameter file.")]


def register(app: typer.Typer) -> None:
    app.command()(distil)
    app.command()(fidelity)


def distil(transcripts: Recorded, out: Folder, personas: Personas = None, params: Params = PARAMS) -> None:
    """Learn an appraiser from recorded dialogues with any user; tests it first on personas and models that it has not seen."""
    from tasks import distil_commands

    typer.echo(distil_commands.distil(transcripts, out, personas, params))


def fidelity(transcripts: Recorded, out: Folder, personas: Personas = None, params: Params = PARAMS) -> None:
    """How far learned appraisers agree with the recorded users, by cross-fitting over personas and policy models (long)."""
    from tasks import distil_commands

    typer.echo(distil_commands.cross_fit(transcripts, out, personas, params))
