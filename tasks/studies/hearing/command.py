"""`rlver hearing`: the user who hears English; how well, by whose labels, and what it makes of one reply."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, Params

FITTED = Path("heads.safetensors")
SHIPPED_SEED = 1


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="The user who hears English: measure, fit and ask it.", rich_markup_mode=None)
    for name, command in (("test", measure), ("agreement", agreement), ("supporters", supporters), ("fit", fit), ("say", say)):
        group.command(name)(command)
    app.add_typer(group, name="hearing")


def measure(params: Params = PARAMS) -> None:
    """Measure it on labelled replies of styles and situations that were never fitted: acts, order, calibration, hard cases."""
    from rlver.components.labels.labelled import NEXT, labelled
    from rlver.components.settings.settings import load_settings
    from rlver.components.users.heard.reading import reader
    from rlver.components.users.scripted.effects import DIFFICULTIES
    from rlver.tasks.studies.acts.detection import labelled as old_test_set
    from rlver.tasks.studies.hearing.drawn import short_apart
    from rlver.tasks.studies.hearing.listening import Listening, fitted_messages, groups, strictly, unseen
    from rlver.tasks.studies.hearing.rated import rated_report
    from rlver.tasks.studies.hearing.tables import figures_report, short_report, since_report, strict_report

    settings = load_settings(params)
    rows = labelled()
    later = unseen(rows, labelled(NEXT))
    apart, strict = groups(rows, old_test_set([])), strictly(rows)
    listening = Listening(reader(), DIFFICULTIES[settings.simulator.difficulty])
    typer.echo(f"{listening.reader.version}; users are {settings.simulator.difficulty}, their need is unknown\n")
    drawn = (settings.evaluation.bootstrap_samples, settings.seed)
    typer.echo(figures_report(apart, listening, *drawn) + "\n")
    typer.echo(strict_report(strict, listening) + "\n")
    if later:
        typer.echo(since_report(later, listening, *drawn) + "\n")
    typer.echo(short_report(short_apart(settings.seed, fitted_messages(rows)), listening, *drawn) + "\n")
    typer.echo(rated_report(listening, *drawn))


def agreement(params: Params = PARAMS) -> None:
    """How far a second labelling of some of the replies agrees with the first."""
    from rlver.components.labels.labelled import NEXT, labelled
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.studies.hearing.agreement import read_second
    from rlver.tasks.studies.hearing.tables import agreement_report

    settings = load_settings(params)
    typer.echo(agreement_report(read_second([*labelled(), *labelled(NEXT)]), settings.evaluation.bootstrap_samples, settings.seed))


def supporters(
    personas: Annotated[int, typer.Option("--personas", min=2, help="Test personas to talk with.")] = 96,
    params: Params = PARAMS,
) -> None:
    """What supporters earn who write free English: told the need, with the best fixed plan, with acts at random (an hour or more)."""
    from rlver.components.personas.generator import compose_personas
    from rlver.components.personas.library import load_library
    from rlver.components.settings.settings import load_settings
    from rlver.components.users.together import put_together
    from rlver.tasks.studies.hearing.supporters import earned
    from rlver.tasks.studies.hearing.tables import earned_report

    settings = load_settings(params)
    wanted = settings.simulator.model_copy(update={"appraiser": "heard", "speaker": "talking"})
    simulator = put_together(wanted.parts, lambda name: wanted.wanted(name, wanted.difficulty, None))
    people = compose_personas(load_library(), settings.seed, 0, personas)[1]
    found = earned(people, simulator, wanted.rules, settings.evaluation.bootstrap_samples, settings.seed)
    typer.echo(earned_report(found, f"{len(people)} test personas, {wanted.difficulty}; {simulator.tag.version}"))


def fit(
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Where adapter and net begin; those that come along began here.")
    ] = SHIPPED_SEED,
    out: Annotated[Path, options.out("The heads to write (safetensors).", options.FILE)] = FITTED,
) -> None:
    """Fit the reader to all labelled replies but those kept for tests (two hours on two cores; stopped, it goes on where it was)."""
    from rlver.components.domain.files import alone_with
    from rlver.tasks.studies.hearing.fit import fit as fit_reader
    from rlver.tasks.studies.hearing.fit import rows_to_fit

    rows = rows_to_fit(seed)
    typer.echo(f"reading {rows}; {rows.kept} are kept for tests", err=True)
    with alone_with(out):
        fit_reader(rows, out, seed, lambda line: typer.echo(line, err=True))
    typer.echo(f"{out}: fitted to {rows}, seed {seed}")


def say(
    reply: Annotated[str, typer.Argument(help="What the policy says.")],
    user: Annotated[str, typer.Option("--user", metavar="MESSAGE", help="What the user said just before.")],
    need: Annotated[str | None, typer.Option("--need", metavar="NEED", help="The user's hidden need; default: nobody knows.")] = None,
    difficulty: options.Difficulty = None,
) -> None:
    """What the user hears in one reply: acts with their probability and words, quality, points and change."""
    from rlver.components.domain.persona import HiddenNeed
    from rlver.components.domain.transcript import Turn
    from rlver.components.users.heard.appraiser import HeardAppraiser
    from rlver.components.users.heard.reading import reader
    from rlver.components.users.scripted.appraiser import Listener
    from rlver.components.users.scripted.effects import DIFFICULTIES
    from rlver.tasks.studies.acts.detection import LabelledReply
    from rlver.tasks.studies.hearing.listening import Listening
    from rlver.tasks.studies.hearing.tables import said_report

    kind = HeardAppraiser(difficulty or "vanilla")
    known = {str(one.value): one for one in HiddenNeed}
    if need is not None and need not in known:
        raise ValueError(f"unknown need {need!r}: choose from {', '.join(known)}")
    if refusal := kind.refusal([Turn(user=user, assistant=reply)]):
        raise ValueError(refusal)
    row = LabelledReply(user, reply, frozenset())
    listening = Listening(reader(), DIFFICULTIES[kind.difficulty], Listener(known[need] if need else None))
    who = f"need {need or 'unknown'}, {kind.difficulty}; {listening.reader.version}"
    typer.echo(said_report(listening.heard(row), listening.appraisal(row), who))
