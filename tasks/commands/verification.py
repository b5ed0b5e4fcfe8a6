"""`rlver verify`: transcripts derived again from their replies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlver.tasks.runtime.options import PARAMS, TEST_PERSONAS, ParamsAndOverlays, Personas, Variant

if TYPE_CHECKING:
    from rlver.components.domain.persona import Persona


def register(app: typer.Typer) -> None:
    app.command()(verify)


def verify(
    transcripts: Annotated[Path, typer.Argument(help="A transcript file; or the folder of a run, with all that lies in it.")],
    personas: Personas = TEST_PERSONAS,
    variant: Variant = None,
    appraiser: Annotated[
        str | None, typer.Option("--appraiser", help="NAME:FOLDER, as distilled:FOLDER, if that appraised (default: simulator.appraiser).")
    ] = None,
    params: ParamsAndOverlays = PARAMS,
) -> str | None:
    """Re-derive every emotion of a transcript file (of an LLM user: from the stored answers); the first difference is an error.

    Of a run's folder every transcript, with its own personas, parameters and answers: a line a file."""
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.verification import USER_ANSWERS, by_id, verified, verify_folder

    if not transcripts.is_dir():

        def people(needed: bool) -> Mapping[str, Persona]:
            return by_id(personas) if needed or personas.is_file() else {}

        return verified(transcripts, people, load_settings(params, variant), USER_ANSWERS, appraiser)
    if variant or appraiser or personas != TEST_PERSONAS or params != PARAMS:
        raise ValueError(
            f"{transcripts}: a folder is verified with the personas, parameters and appraisers in it; name a file, or leave the options out"
        )
    good = True
    for line, derived in verify_folder(transcripts):
        typer.echo(line)
        good &= derived
    if not good:
        raise typer.Exit(1)
    return None
