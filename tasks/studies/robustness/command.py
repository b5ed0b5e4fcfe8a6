"""`rlver robustness`: the same policies, personas and seeds with one kind of user after another, and what is left of the score."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, TEST_PERSONAS, Difficulty, Personas
from rlver.tasks.runtime.options import ParamsAndOverlays as Params


def register(app: typer.Typer) -> None:
    app.command()(robustness)


def robustness(
    policy: Annotated[
        list[str],
        typer.Option(
            "--policy",
            metavar="[VARIANT=]POLICY",
            help="A model folder, hf:NAME, openai:MODEL or vllm:URL; VARIANT: the overlay it is spoken with (default: of its name). Repeatable.",
        ),
    ],
    shifts: Annotated[
        list[str] | None, typer.Option("--shifts", metavar="NAME", help="Only these shifts, e.g. typos,unseen-cues. Repeatable.")
    ] = None,
    second_opinion: Annotated[
        list[str] | None,
        typer.Option(
            "--second-opinion",
            metavar="APPRAISER",
            help="scripted:DIFFICULTY, llm, distilled:FOLDER, or the unshifted transcripts as appraised by another (a file or folder). Repeatable.",
        ),
    ] = None,
    personas: Personas = TEST_PERSONAS,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N personas.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Dialogues with each persona (default: evaluation.repeats).")] = None,
    difficulty: Difficulty = None,
    own_users: Annotated[
        bool, typer.Option("--own-users", help="The users that the policies' overlays name, in place of the scripted ones.")
    ] = False,
    transcripts: Annotated[Path, typer.Option("--transcripts", help="Where the dialogues are kept.")] = Path("transcripts/robustness"),
    out: Annotated[Path, options.out("The JSON file with all figures.", options.FILE_OR_STREAM)] = Path("metrics/robustness.json"),
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: Params = PARAMS,
) -> None:
    """Let policies talk with the same users in other words, with other stories, and see what is left of the score; exit 1 when a shift
    could not be measured. Finished shifts are kept: run it again to go on."""
    options.limit_endpoints(budget, replay)
    from rlver.components.domain.files import write_json
    from rlver.components.personas.schema import validate_file
    from rlver.components.rollout.episode import TooManyFailures
    from rlver.components.rollout.transcripts import load_transcripts
    from rlver.components.scoring.units import Sampling
    from rlver.components.settings.settings import load_settings, with_simulator
    from rlver.components.users.shifts.users import UNSHIFTED
    from rlver.tasks.graph.lock import md5_of
    from rlver.tasks.studies.robustness.dialogues import (
        SCRIPTED,
        Plan,
        candidate_as_spoken_to,
        chosen_users,
        held_dialogues,
        opinion_of,
        opinions,
        shared_users,
    )
    from rlver.tasks.studies.robustness.robustness import rows
    from rlver.tasks.studies.robustness.tables import as_json, as_text, policy_as_json

    people = validate_file(personas)[:limit]
    spoken = [candidate_as_spoken_to(one, params, None if own_users else SCRIPTED, difficulty) for one in policy]
    common = (
        shared_users([settings for _, settings in spoken]) if own_users else with_simulator(load_settings(params), SCRIPTED, difficulty)
    )
    wanted = options.split(shifts, "--shifts needs a name") or []
    plan = Plan(personas, people, chosen_users(wanted, common, own_users), repeats, transcripts)
    second = opinions(second_opinion or [], plan.users[UNSHIFTED].tag, common)
    names = [who.name for who, _ in spoken]
    if len(set(names)) < len(names):
        raise ValueError(f"policies need different names, got {', '.join(names)}")
    measured, unshifted = [], {}
    for who, settings in spoken:
        files, missing = held_dialogues(who, settings, plan)
        dialogues = {shift: load_transcripts(path) for shift, path in files.items()}
        if UNSHIFTED not in dialogues:
            raise TooManyFailures(f"{who.name}: {missing[UNSHIFTED]}")
        unshifted[who.name] = dialogues[UNSHIFTED]
        found = rows(dialogues, UNSHIFTED, Sampling.over(people, common.evaluation.bootstrap_samples, common.seed))
        folder = who.folder()
        md5 = None if folder is None else md5_of(folder)
        measured.append(policy_as_json(who.name, md5, found, files, missing))
    agreed = [opinion_of(named, unshifted, people, common) for named in second]
    told = as_json(measured, agreed, common, len(people))
    write_json(out, told)
    typer.echo(f"{as_text(told)}\n{out}")
    if any(one["not_measured"] for one in measured):
        raise typer.Exit(1)
