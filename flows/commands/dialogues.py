"""`rlver converse`, `appraise`, `verify`, `import`, `chat`: dialogues between policies and users; `score`, `compare`: their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, TEST_PERSONAS, Difficulty, OfDialogues, Personas, Variant
from rlver.tasks.runtime.options import ParamsAndOverlays as Params

Out = Annotated[Path, options.out("The transcript file to write (JSONL).", options.FILE_OR_STREAM)]


def register(app: typer.Typer) -> None:
    for command in (converse, appraise, verify, chat):
        app.command()(command)
    app.command("import")(import_)
    app.command()(score)
    app.command()(compare)


def converse(
    policy: Annotated[
        str, typer.Option("--policy", help="A model folder, hf:NAME, or behind a chat endpoint openai:MODEL or vllm:URL (evaluation only).")
    ],
    out: Annotated[Path, options.out("The transcript file to write (JSONL); unfinished work lies beside it.")],
    personas: Personas = TEST_PERSONAS,
    simulator: Annotated[
        str | None, typer.Option("--simulator", help="Who plays the users: scripted, llm, or another kind by its name.")
    ] = None,
    difficulty: Difficulty = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Talk only with the first N personas.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Dialogues with each persona (default: evaluation.repeats).")] = None,
    variant: Variant = None,
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: Params = PARAMS,
) -> None:
    """Let a policy talk with simulated users, and write what was said and felt; after Ctrl-C, run it again to go on."""
    options.limit_endpoints(budget, replay)
    from rlver.tasks.commands import dialogues as dialogue_commands

    typer.echo(dialogue_commands.converse(policy, personas, out, simulator, difficulty, limit, repeats, variant, params))


def appraise(
    transcripts: Annotated[Path, typer.Argument(help="Dialogues, also foreign ones: chats of any usual shape, need and persona unknown.")],
    out: Out,
    appraiser: Annotated[
        str,
        typer.Option("--appraiser", metavar="KIND", help="Who appraises: scripted, distilled:FOLDER (learned), or another by its name."),
    ] = "scripted",
    personas: Annotated[Path | None, typer.Option("--personas", help="The personas file, if there is one.")] = None,
    difficulty: Difficulty = None,
    skip: Annotated[bool, typer.Option("--skip", help="Leave out dialogues that cannot be read or are not in English.")] = False,
    params: Params = PARAMS,
) -> None:
    """Appraise every reply of recorded dialogues anew, and fill in emotions and reasons."""
    from rlver.tasks.commands import dialogues as dialogue_commands

    typer.echo(dialogue_commands.appraise(transcripts, appraiser, out, personas, difficulty, params, skip))


def verify(
    transcripts: Annotated[Path, typer.Argument(help="A transcript file; or the folder of a run, with all that lies in it.")],
    personas: Personas = TEST_PERSONAS,
    variant: Variant = None,
    appraiser: Annotated[
        str | None, typer.Option("--appraiser", help="NAME:FOLDER, as distilled:FOLDER, if that appraised (default: simulator.appraiser).")
    ] = None,
    params: Params = PARAMS,
) -> None:
    """Re-derive every emotion of a transcript file (of an LLM user: from the stored answers); the first difference is an error.

    Of a run's folder every transcript, with its own personas, parameters and answers: a line a file."""
    if transcripts.is_dir():
        from rlver.tasks.commands.verification import verify_folder

        good = True
        for line, derived in verify_folder(transcripts):
            typer.echo(line)
            good &= derived
        if not good:
            raise typer.Exit(1)
        return
    from rlver.tasks.commands import dialogues as dialogue_commands

    typer.echo(dialogue_commands.verify(transcripts, personas, variant, params, appraiser))


def import_(
    kind: Annotated[Literal["sage"], typer.Argument(help="Where the file comes from.")],
    file: Annotated[Path, typer.Argument(help="sage: recorded dialogues of the SAGE paper (JSONL, also .gz).")],
    out: Out,
    policy: Annotated[str | None, typer.Option("--policy", help="Who replied (default: the file's name).")] = None,
) -> None:
    """Bring dialogues of another project into this project's format; nothing is written when any row is bad."""
    from rlver.tasks.commands import dialogues as dialogue_commands

    typer.echo(dialogue_commands.import_sage(file, out, policy))


def chat(
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="The model: a folder, hf:NAME, openai:MODEL or vllm:URL (default: the newest trained one)."),
    ] = None,
    side: Annotated[
        Literal["user", "supporter"],
        typer.Option("--as", help="Be the user of a model, or the supporter of a simulated user and watch the emotion change."),
    ] = "user",
    persona: Annotated[str | None, typer.Option("--persona", help="Id of the simulated user, as supporter.")] = None,
    personas: Annotated[Path | None, typer.Option("--personas", help="The personas file, as supporter.")] = None,
    variant: Variant = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the sampling or of the simulated user.")] = None,
    params: Params = PARAMS,
) -> None:
    """Talk to a model, or be the supporter of a simulated user."""
    from rlver.tasks.commands.chat import chat as talk

    talk(policy, side, persona, personas, variant, seed, params)


def score(
    transcripts: Annotated[Path, typer.Argument(help="A transcript file, or a variant's name.")],
    base: Annotated[Path | None, typer.Option("--base", help="Transcripts (or variant) to pair with, persona by persona.")] = None,
    personas: OfDialogues = None,
    out: Annotated[Path | None, options.out("Also write all metrics to this JSON file.", options.FILE_OR_STREAM)] = None,
    params: options.Params = PARAMS,
) -> None:
    """Score a transcript file: mean final emotion, success and failure rates, with 95% confidence intervals."""
    from rlver.tasks.commands.scores import score as measure

    typer.echo(measure(transcripts, base, personas, out, params))


def compare(
    files: Annotated[list[Path], typer.Argument(metavar="A [B …]", help="Transcript files, or names of variants.")],
    published: Annotated[
        bool, typer.Option("--published", help="Beside the published scores of the SAGE paper, which have no CI.")
    ] = False,
    personas: OfDialogues = None,
    params: options.Params = PARAMS,
) -> None:
    """Put policies on a leaderboard with 95% intervals; of two, also the paired differences on the personas they share, b minus a."""
    from rlver.tasks.commands.scores import compare as contrast

    typer.echo(contrast(files, published, params, personas))
