"""`rlver personas …`: compose, import and check personas. Nothing is written unless every row is good."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rlver.components.domain.printable import one_line
from rlver.tasks.commands.unsealing import unseal
from rlver.tasks.runtime import options

Split = Literal["train", "test"]

app = typer.Typer(no_args_is_help=True, help="Compose, import, check and announce personas.", rich_markup_mode=None)


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="personas")


@app.command()
def generate(
    out: Annotated[Path, options.out("With --count: the persona file. Without: a folder for train.jsonl and test.jsonl.", options.ANY)],
    train: Annotated[int | None, typer.Option(min=1, help="Personas to train on, without --count. Default: 500.")] = None,
    test: Annotated[
        int | None, typer.Option(min=1, help="Personas to test on, without --count; they share no scenario with the others. Default: 100.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")] = 7,
    backend: Annotated[
        Literal["library", "llm"],
        typer.Option(help="library: hand-written scenarios | llm: a model behind the endpoint writes new ones."),
    ] = "library",
    count: Annotated[int | None, typer.Option(min=1, help="Personas of one split, in one file.")] = None,
    split: Annotated[Split | None, typer.Option(help="The split of --count personas. Default: train.")] = None,
    kind: Annotated[
        Literal["boundary", "adversarial", "danger"] | None,
        typer.Option(help="Users whom agreeing does not serve: who test a no, who derail, or are in danger."),
    ] = None,
    language: Annotated[Literal["en", "zh"], typer.Option(help="llm: en or zh.")] = "en",
    model: Annotated[str | None, typer.Option(help="llm: the model that writes, in place of authoring.model.")] = None,
    apart_from: Annotated[list[Path] | None, typer.Option(help="llm: a persona file that nothing new may resemble; repeatable.")] = None,
    replay: options.Replay = False,
    budget: options.Budget = None,
) -> None:
    """Compose personas from the scenario library, or have new ones written by a language model."""
    if count is not None and (train is not None or test is not None):
        raise ValueError("--train and --test are for two files: with --count, name one --split")
    if count is None and split is not None:
        raise ValueError("--split is for --count")
    if backend == "llm":
        if kind is not None:
            raise ValueError("--kind is for --backend library: users of a kind have hand-written scenarios only")
        if count is None:
            raise ValueError("--backend llm writes one file: say how many personas with --count")
        from rlver.components.settings.settings import load_settings
        from rlver.tasks.studies.authoring.asking import PersonaOrder
        from rlver.tasks.studies.authoring.writer import write_personas

        options.limit_endpoints(budget, replay)
        order, settings = PersonaOrder(language, split or "train", count, seed), load_settings(Path("params.yaml"))
        report = write_personas(out, order, settings, model, apart_from or [])
        typer.echo(f"{out}: {report['personas']} personas in {report['scenarios']} new scenarios, from {report['answers']} answers")
        for what, kinds in report["rejected"].items():
            typer.echo(f"rejected {what}: {', '.join(f'{why} {number}' for why, number in kinds.items()) or 'none'}")
        return
    if model or apart_from or replay or budget is not None or language != "en":
        raise ValueError("--language, --model, --apart-from, --replay and --budget are for --backend llm")
    from rlver.components.domain.persona import PersonaKind
    from rlver.components.personas.generator import compose_personas
    from rlver.components.personas.library import load_library
    from rlver.components.personas.special import compose_special
    from rlver.tasks.runtime.personas import write_file, write_split

    sizes = (train or 500, test or 100) if not count else (0, count) if split == "test" else (count, 0)
    sides = compose_special(PersonaKind(kind), seed, *sizes) if kind else compose_personas(load_library(), seed, *sizes)
    if count:
        write_file(out, sides[0] or sides[1])
        typer.echo(f"{out}: {count} personas")
    else:
        write_split(out, *sides)
        for name, side in zip(("train", "test"), sides, strict=True):
            typer.echo(f"{out / name}.jsonl: {len(side)} personas")


app.command()(unseal)


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="RLVER/SAGE profiles (JSONL, also .gz) or personas in this project's schema.")],
    out: Annotated[Path, options.out("The persona file to write.", options.FILE_OR_STREAM)],
    split: Annotated[
        Split | None,
        typer.Option(help="The split of the profiles (default: train). Personas in our schema say theirs.", show_default=False),
    ] = None,
) -> str:
    """Bring foreign persona profiles into this project's schema; nothing is written when any row is bad."""
    from rlver.components.domain import looks
    from rlver.components.domain.files import write_jsonl
    from rlver.components.personas.profiles import import_profiles
    from rlver.components.personas.schema import InvalidPersonas, read_rows, validate_rows

    try:
        rows, problems = read_rows(source)
        own = any("persona_id" in row.values for row in rows)
        personas = validate_rows(source.name, rows, problems) if own else import_profiles(source, split or "train")
    except InvalidPersonas as error:
        for problem in error.problems:
            typer.echo(one_line(str(problem)), err=True)
        raise ValueError(f"{source}: {len(error.problems)} problems, nothing was written; mend the lines above") from error
    if split and (strangers := [one.persona_id for one in personas if one.split != split]):
        raise ValueError(
            f"{source}: {len(strangers)} personas are not of split {split!r}, first {strangers[0]}: leave --split out, or change `split` in the file"
        )
    looks.tell(persona.persona_id for persona in personas)
    write_jsonl(out, [persona.model_dump(mode="json") for persona in personas])
    return f"{out}: {len(personas)} personas"


@app.command()
def validate(files: Annotated[list[Path], typer.Argument(help="Persona files (JSONL).")]) -> None:
    """Check every row of persona files; every problem is shown with file, line, field and reason."""
    from rlver.components.personas.schema import InvalidPersonas, validate_file

    good = True
    for path in files:
        try:
            typer.echo(f"{path}: {len(validate_file(path))} personas, all valid")
        except InvalidPersonas as error:
            good = False
            for problem in error.problems:
                typer.echo(one_line(str(problem)), err=True)
            typer.echo(f"{path}: {len(error.problems)} problems")
    if not good:
        raise typer.Exit(1)
