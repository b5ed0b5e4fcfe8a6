"""`rlver converse`, `appraise`, `verify`, `import`, `chat`: dialogues between a policy and simulated users, and those that others held."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Params = Annotated[Path, typer.Option("--params", help="The parameter file; overlays are beside it in params/.")]
Variant = Annotated[str | None, typer.Option("--variant", help="Overlay params/<variant>.yaml.")]
Personas = Annotated[Path, typer.Option("--personas", help="The personas file (JSONL).")]
Difficulty = Annotated[str | None, typer.Option("--difficulty", help="vanilla or challenging (default: the parameter file's).")]

PARAMS = Path("params.yaml")
TEST_PERSONAS = Path("data/personas/test.jsonl")


class Side(StrEnum):
    USER = "user"
    SUPPORTER = "supporter"


class Source(StrEnum):
    SAGE = "sage"
    RLVER = "rlver"


def register(app: typer.Typer) -> None:
    for command in (converse, appraise, verify, chat):
        app.command()(command)
    app.command("import")(import_)


def converse(
    policy: Annotated[str, typer.Option("--policy", help="Folder of a model in Hugging Face format, or hf:NAME for one of the hub.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The transcript file to write (JSONL).")],
    personas: Personas = TEST_PERSONAS,
    simulator: Annotated[str | None, typer.Option("--simulator", help="Who the user is: scripted.")] = None,
    difficulty: Difficulty = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Talk only with the first N personas.")] = None,
    variant: Variant = None,
    params: Params = PARAMS,
) -> None:
    """Let a policy talk with simulated users, and write what was said and felt. Ctrl-C keeps what is finished; run it again to go on."""
    from tasks import dialogue_commands

    typer.echo(dialogue_commands.converse(policy, personas, out, simulator, difficulty, limit, variant, params))


def appraise(
    transcripts: Annotated[Path, typer.Argument(help="Dialogues, also foreign ones: unknown need, text-only persona, no emotions.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The appraised transcript file to write.")],
    appraiser: Annotated[str, typer.Option("--appraiser", metavar="KIND[:PATH]", help="Who appraises: scripted.")] = "scripted",
    personas: Annotated[Path | None, typer.Option("--personas", help="The personas file, if there is one.")] = None,
    difficulty: Difficulty = None,
    params: Params = PARAMS,
) -> None:
    """Appraise every reply of recorded dialogues anew, and fill in emotions and reasons."""
    from tasks import dialogue_commands

    typer.echo(dialogue_commands.appraise(transcripts, appraiser, out, personas, difficulty, params))


def verify(
    transcripts: Annotated[Path, typer.Argument(help="A transcript file.")],
    personas: Personas = TEST_PERSONAS,
    variant: Variant = None,
    params: Params = PARAMS,
) -> None:
    """Re-derive every emotion of a transcript file; the first difference is an error."""
    from tasks import dialogue_commands

    typer.echo(dialogue_commands.verify(transcripts, personas, variant, params))


def import_(
    kind: Annotated[Source, typer.Argument(help="sage: recorded dialogues; rlver: persona profiles.")],
    source: Annotated[Path, typer.Argument(help="The file (JSONL, also .gz).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    policy: Annotated[str | None, typer.Option("--policy", help="sage: who replied (default: the file's name).")] = None,
    split: Annotated[str, typer.Option("--split", help="rlver: the split the personas belong to, train or test.")] = "train",
) -> None:
    """Bring recorded SAGE dialogues or RLVER profiles into this project's formats; nothing is written when any row is bad."""
    if kind is Source.SAGE:
        from tasks import dialogue_commands

        typer.echo(dialogue_commands.import_sage(source, out, policy))
    else:
        from flows.commands import personas

        personas.import_(source, out, split)


def chat(
    policy: Annotated[
        str | None, typer.Option("--policy", help="Folder of the model, or hf:NAME (default: the newest trained one).")
    ] = None,
    side: Annotated[Side, typer.Option("--as", help="Your side: the user of a model, or the supporter of a simulated user.")] = Side.USER,
    persona: Annotated[str | None, typer.Option("--persona", help="As supporter: the id of the simulated user.")] = None,
    personas: Annotated[Path | None, typer.Option("--personas", help="As supporter: the personas file (JSONL).")] = None,
    variant: Variant = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the simulated user or of the sampling.")] = None,
    params: Params = PARAMS,
) -> None:
    """Talk to a policy, or be the supporter of a simulated user and watch its emotion and its reasons."""
    from tasks.chat import chat as hold

    hold(policy, side.value, persona, personas, variant, seed, params)
