"""`rlver personas …`: compose, import, check and announce personas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rlver.components.domain.printable import one_line
from rlver.tasks.runtime import options

Backend = Literal["library", "llm"]
Split = Literal["train", "test"]
Language = Literal["en", "zh"]
Kind = Literal["boundary", "adversarial", "danger"]

app = typer.Typer(no_args_is_help=True, help="Compose, import, check and announce personas.", rich_markup_mode=None)


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="personas")


@app.command()
def generate(
    out: Annotated[Path, options.out("With --count: the persona file. Without: a folder for train.jsonl and test.jsonl.", options.ANY)],
    train: Annotated[int, typer.Option(help="Personas to train on, without --count.")] = 500,
    test: Annotated[int, typer.Option(help="Personas to test on, without --count; they share no scenario with the others.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = 7,
    backend: Annotated[
        Backend, typer.Option(help="library: hand-written scenarios | llm: a model behind the endpoint writes new ones.")
    ] = "library",
    count: Annotated[int | None, typer.Option(min=1, help="Personas of one split, in one file.")] = None,
    split: Annotated[Split, typer.Option(help="The split of --count personas.")] = "train",
    kind: Annotated[
        Kind | None, typer.Option(help="Users whom agreeing does not serve: who test a no, who derail, or are in danger.")
    ] = None,
    language: Annotated[Language, typer.Option(help="llm: en or zh.")] = "en",
    model: Annotated[str | None, typer.Option(help="llm: the model that writes, in place of authoring.model.")] = None,
    apart_from: Annotated[list[Path] | None, typer.Option(help="llm: a persona file that nothing new may resemble; repeatable.")] = None,
    replay: options.Replay = False,
    budget: options.Budget = None,
) -> None:
    """Compose personas from the scenario library, or have new ones written by a language model."""
    if backend == "llm":
        if kind is not None:
            raise ValueError("--kind is for --backend library: users of a kind have hand-written scenarios only")
        if count is None:
            raise ValueError("--backend llm writes one file: say how many personas with --count")
        from rlver.components.settings.settings import load_settings
        from rlver.tasks.studies.authoring.asking import PersonaOrder
        from rlver.tasks.studies.authoring.writer import write_personas

        options.limit_endpoints(budget, replay)
        order, settings = PersonaOrder(language, split, count, seed), load_settings(Path("params.yaml"))
        report = write_personas(out, order, settings, model, apart_from or [])
        typer.echo(f"{out}: {report['personas']} personas in {report['scenarios']} new scenarios, from {report['answers']} answers")
        for what, kinds in report["rejected"].items():
            typer.echo(f"rejected {what}: {', '.join(f'{why} {number}' for why, number in kinds.items()) or 'none'}")
        return
    if model or apart_from or replay or budget is not None or language != "en":
        raise ValueError("--language, --model, --apart-from, --replay and --budget are for --backend llm")
    from rlver.tasks.commands import personas as persona_commands

    written = (
        {out: persona_commands.compose_one(out, split, count, seed, kind)}
        if count
        else persona_commands.generate(out, train, test, seed, kind)
    )
    for path, number in written.items():
        typer.echo(f"{path}: {number} personas")


@app.command()
def unseal(
    out: Annotated[Path, options.out("The persona file to write.")],
    why: Annotated[str, typer.Option(help="What the sealed test is opened for; stands in sealed-openings.csv.")],
    count: Annotated[int, typer.Option(min=1, help="Personas.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same file.")] = 7,
) -> None:
    """Open the sealed test: scenarios and hints that no other command reads. Each opening is a numbered, dated line for git."""
    from rlver.tasks.commands.unsealing import OPENINGS
    from rlver.tasks.commands.unsealing import unseal as open_seal

    number = open_seal(out, count, seed, why)
    typer.echo(f"{out}: {count} personas of the sealed test")
    typer.echo(f"opening {number} stands in {OPENINGS}: git add {OPENINGS} && git commit")


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="RLVER/SAGE profiles (JSONL, also .gz) or personas in this project's schema.")],
    out: Annotated[Path, options.out("The persona file to write.", options.FILE_OR_STREAM)],
    split: Annotated[
        Split | None,
        typer.Option(help="The split of the profiles (default: train). Personas in our schema say theirs.", show_default=False),
    ] = None,
) -> None:
    """Bring foreign persona profiles into this project's schema; nothing is written when any row is bad."""
    from rlver.components.personas.schema import InvalidPersonas
    from rlver.tasks.commands.personas import import_personas

    try:
        typer.echo(f"{out}: {import_personas(source, out, split)} personas")
    except InvalidPersonas as error:
        for problem in error.problems:
            typer.echo(one_line(str(problem)), err=True)
        raise ValueError(f"{source}: {len(error.problems)} problems, nothing was written; mend the lines above") from error


@app.command()
def validate(files: Annotated[list[Path], typer.Argument(help="Persona files (JSONL).")]) -> None:
    """Check every row of persona files; every problem is shown with file, line, field and reason."""
    from rlver.tasks.commands.personas import validate as check

    good = True
    for path in files:
        problems, count = check(path)
        for problem in problems:
            typer.echo(one_line(str(problem)), err=True)
        good &= not problems
        typer.echo(f"{path}: {f'{len(problems)} problems' if problems else f'{count} personas, all valid'}")
    if not good:
        raise typer.Exit(1)


@app.command()
def landed(file: Annotated[Path, typer.Argument(help="The persona file that has arrived.")]) -> None:
    """Announce new persona data: starts the deployment that waits for it (see `rlver serve-deployments`)."""
    from rlver.tasks.runtime import environment

    environment.require_prefect_server(environment.project_root())
    from rlver.flows.deployments import LANDED, personas_landed

    typer.echo(f"emitted {LANDED} for {file} (MD5 {personas_landed(file)})")
