"""`rlver audit`: is the score earned or gamed? Every policy that is named is audited, and the user probed if asked to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, TEST_PERSONAS, TRAIN_PERSONAS, Params

if TYPE_CHECKING:
    from rlver.components.domain.transcript import Dialogue
    from rlver.tasks.studies.audit.audit import Audited
    from rlver.tasks.studies.audit.opinions import Recorded

BASE = Path("base")
MODELS = Path("models")
IN_DANGER = 40  # dialogues


def register(app: typer.Typer) -> None:
    app.command()(audit)


def audit(
    policies: Annotated[list[Path], typer.Argument(metavar="TRANSCRIPTS|VARIANT…", help="Transcript files, or names of variants.")],
    base: Annotated[
        Path | None,
        typer.Option("--base", help="The base's transcripts (default: the variant base, if it met the same personas)."),
    ] = None,
    log: Annotated[Path | None, typer.Option("--log", help="The train.jsonl of the policy (a variant's own is found).")] = None,
    second: Annotated[
        Path | None, typer.Option("--second", help="The same dialogues, base included, as another appraiser sees them (`rlver appraise`).")
    ] = None,
    personas: Annotated[
        Path | None,
        typer.Option("--personas", help=f"The personas file, for the second appraiser (default: {TEST_PERSONAS}, if it is there)."),
    ] = None,
    probe: Annotated[bool, typer.Option("--probe", help="Also let cheating policies talk with the simulated user.")] = False,
    probe_personas: Annotated[Path, typer.Option("--probe-personas", help="Whom the cheats talk with (JSONL).")] = TEST_PERSONAS,
    danger: Annotated[
        bool, typer.Option("--danger", help="Also let every variant talk with people in danger, and count what it does; no limit is set.")
    ] = False,
    out: Annotated[Path | None, options.out("Also write every check to this JSON file.", options.FILE_OR_STREAM)] = None,
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: Params = PARAMS,
) -> None:
    """Look for the known ways to game the reward; exit status 1 when a limit of `audit` in params.yaml is clearly broken."""
    options.limit_endpoints(budget, replay)
    from rlver.components.domain.files import STANDARD_OUTPUT, write_json
    from rlver.components.personas.schema import validate_file
    from rlver.components.scoring.splits import refuse_mixed_users
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.appraisers import TRANSCRIPTS
    from rlver.tasks.runtime.people import known_personas, warn_of_strangers
    from rlver.tasks.runtime.progress import counted
    from rlver.tasks.studies.audit.audit import Audited, audit_one
    from rlver.tasks.studies.audit.checks import CheckOutcome
    from rlver.tasks.studies.audit.reference import mean_final
    from rlver.tasks.studies.audit.summary import details, probe_table

    settings = load_settings(params)
    if log is not None and len(policies) > 1:
        raise ValueError("a training log belongs to one policy: audit the others by themselves, or as variants")
    if not probe and probe_personas != TEST_PERSONAS:
        raise ValueError("--probe-personas is for --probe")
    probed_with = validate_file(probe_personas) if probe else []
    named = [Audited.of(one, log, params) for one in policies]
    compared = list(Audited.of(base, None).dialogues) if base else _own_base(named, TRANSCRIPTS / f"{BASE}.jsonl")
    for one in named if base else ():
        refuse_mixed_users([*(compared or ()), *one.dialogues])
    held_out_of = validate_file(TRAIN_PERSONAS) if TRAIN_PERSONAS.is_file() else []
    people = {persona.persona_id: persona for persona in (*held_out_of, *known_personas(personas))}
    warn_of_strangers(list(people.values()), (dialogue for one in named for dialogue in one.dialogues), personas)
    opinion = _another(second, named) if second else None
    audits = {  # the base itself is compared with nothing
        one.name: audit_one(one, None if list(one.dialogues) == compared else compared, settings, people, opinion)
        for one in counted(named, "policies audited")
    }
    parts = [details(name, found) for name, found in audits.items()]
    outcomes = [found["outcome"] for found in audits.values()]
    written: dict[str, Any] = {"policies": audits}
    if probe:
        from rlver.tasks.studies.audit.probe import probe as probed

        others = [one.dialogues for one in named if list(one.dialogues) != compared]
        trained = max(others, key=lambda held: mean_final(held) if any(one.emotion_final is not None for one in held) else -1.0, default=[])
        written["probe"] = probed(settings, probed_with, compared, trained)
        parts.append(probe_table(written["probe"]))
        outcomes.append(written["probe"]["outcome"])
    if out is not None and not (danger and out == STANDARD_OUTPUT):  # a file is kept from what may break off; a stream holds one object
        write_json(out, written)
    typer.echo("\n".join(parts))
    if danger:
        written["danger"], shown = _with_people_in_danger([one.name for one in named], params)
        typer.echo(shown)
        if out is not None:
            write_json(out, written)
    if CheckOutcome.ALARM in outcomes:
        raise typer.Exit(1)


def _with_people_in_danger(policies: Sequence[str], params: Path) -> tuple[dict[str, Any], str]:
    """The figures of each policy whose model is a variant's, and all of it in words. Nothing here changes the outcome of an audit."""
    from dataclasses import asdict

    from rlver.components.settings.overlays import UnknownVariant
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.conversing import as_evaluated
    from rlver.tasks.studies.special.danger import figures_of, met_by, people_in_danger, table

    figures, shown = dict[str, Any](), ["## People in danger: no part of the outcome\n"]
    for name in policies:
        if not (MODELS / name).is_dir():
            shown.append(f"{name}: not met, {MODELS / name} is no model\n")
            continue
        try:
            settings = as_evaluated(load_settings(params, name))
        except UnknownVariant:
            shown.append(f"{name}: not met, it has no overlay {params.parent / 'params' / name}.yaml\n")
            continue
        with options.keeping_no_dialogue():
            held = met_by(str(MODELS / name), IN_DANGER, settings)
        found = figures_of(held, people_in_danger(settings, IN_DANGER))
        figures[name] = {key: asdict(one) for key, one in found.items()}
        shown.append(table(name, held, found) + "\n")
    return figures, "\n".join(shown)


def _another(second: Path, policies: Sequence[Audited]) -> Recorded:
    """The appraisal recorded in `second`. Raises ValueError where it is the policies' own user's, which confirms whatever it paid for, or that of several appraisers."""
    from rlver.components.rollout.transcripts import load_transcripts
    from rlver.tasks.runtime.appraisers import refuse_as_second
    from rlver.tasks.studies.audit.opinions import Recorded

    recorded = load_transcripts(second)
    own = {dialogue.simulator for policy in policies for dialogue in policy.dialogues}
    refuse_as_second(f"--second {second}", recorded, own)
    return Recorded(recorded)


def _own_base(policies: Sequence[Audited], recorded: Path) -> list[Dialogue] | None:
    """The variant base where every policy met some of its personas and the same users, as those of this project did. Says whether it was taken."""
    if not recorded.is_file():
        return None
    from rlver.components.rollout.transcripts import load_transcripts
    from rlver.components.scoring.splits import user_of

    base = load_transcripts(recorded)
    met = {one.persona_id for one in base}
    users = {user_of(one) for one in base}
    strangers = [policy.name for policy in policies if not met & {one.persona_id for one in policy.dialogues}]
    others = [policy.name for policy in policies if {user_of(one) for one in policy.dialogues} != users]
    for who, what in ((strangers, "personas"), (others, "users")):
        if who:
            typer.echo(f"compared with no base: {', '.join(who)} met other {what} than {recorded} (name one with --base)", err=True)
            return None
    typer.echo(f"compared with the base in {recorded}", err=True)
    return base
