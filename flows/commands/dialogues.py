"""`rlver converse`, `appraise`, `verify`, `chat`: dialogues between a policy and simulated users."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Params = Annotated[Path, typer.Option("--params", help="The parameter file; overlays are beside it in params/.")]
Variant = Annotated[str | None, typer.Option("--variant", help="Overlay params/<variant>.yaml.")]
Personas = Annotated[Path, typer.Option("--personas", help="The personas file (JSONL).")]

PARAMS = Path("params.yaml")
TEST_PERSONAS = Path("data/personas/test.jsonl")


def register(app: typer.Typer) -> None:
    for command in (converse, appraise, verify, chat):
        app.command()(command)


def converse(
    model: Annotated[Path, typer.Argument(help="Folder of a model in Hugging Face format.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The transcript file to write (JSONL).")],
    personas: Personas = TEST_PERSONAS,
    limit: Annotated[int | None, typer.Option(min=1, help="Talk only with the first N personas.")] = None,
    variant: Variant = None,
    params: Params = PARAMS,
) -> None:
    """Let a model talk with simulated users, and write what was said and felt."""
    from tasks import dialogue_commands

    dialogue_commands.converse(model=model, personas=personas, out=out, limit=limit, variant=variant, params=params)


def appraise(
    transcripts: Annotated[Path, typer.Argument(help="Dialogues, also foreign ones: unknown need, text-only persona, no emotions.")],
    appraiser: Annotated[str, typer.Option("--appraiser", metavar="KIND[:PATH]", help="Who appraises: scripted.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The appraised transcript file to write.")],
    personas: Annotated[Path | None, typer.Option("--personas", help="The personas file, if there is one.")] = None,
    params: Params = PARAMS,
) -> None:
    """Appraise every reply of recorded dialogues anew, and fill in emotions and reasons."""
    from tasks import dialogue_commands

    dialogue_commands.appraise(transcripts=transcripts, appraiser=appraiser, out=out, personas=personas, params=params)


def verify(
    transcripts: Annotated[Path, typer.Argument(help="A transcript file.")],
    personas: Personas = TEST_PERSONAS,
    params: Params = PARAMS,
) -> None:
    """Re-derive every emotion of a transcript file; the first difference is an error."""
    from tasks import dialogue_commands

    dialogue_commands.verify(transcripts=transcripts, personas=personas, params=params)


def chat(
    model: Annotated[Path | None, typer.Option("--model", help="Folder of the model to talk to (default: the newest trained one).")] = None,
    supporter: Annotated[
        bool, typer.Option("--supporter", help="Swap sides: you support a simulated user, and watch the emotion change.")
    ] = False,
    persona: Annotated[str | None, typer.Option("--persona", help="Id of the simulated user (with --supporter).")] = None,
    personas: Personas = TEST_PERSONAS,
    variant: Variant = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the simulated user or of the sampling.")] = None,
    params: Params = PARAMS,
) -> None:
    """Talk to a model, or be the supporter of a simulated user."""
    from tasks import dialogue_commands

    dialogue_commands.chat(model=model, supporter=supporter, persona=persona, personas=personas, variant=variant, seed=seed, params=params)
