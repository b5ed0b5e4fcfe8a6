"""`rlver latency`: how long a person waits for a reply, and how much of that is thinking."""

from __future__ import annotations

from typing import Annotated

import typer

from rlver.tasks.runtime.options import PARAMS, TEST_PERSONAS, FiguresOut, Personas, Variant, keeping_no_dialogue
from rlver.tasks.runtime.options import ParamsAndOverlays as Params


def register(app: typer.Typer) -> None:
    app.command()(latency)


def latency(
    policy: Annotated[str, typer.Option("--policy", help="A model folder or hf:NAME.")],
    personas: Personas = TEST_PERSONAS,
    limit: Annotated[int, typer.Option(min=2, help="Talk with the first N personas.")] = 10,
    variant: Variant = None,
    out: FiguresOut = None,
    params: Params = PARAMS,
) -> None:
    """Time the replies of a policy on this machine, one person at a time: seconds and tokens, and what of them is thinking."""
    import time
    from dataclasses import replace

    from rlver.components.domain.files import write_json
    from rlver.components.personas.schema import validate_file
    from rlver.components.settings.settings import load_settings, with_simulator
    from rlver.tasks.runtime.conversing import as_evaluated, jobs_of
    from rlver.tasks.runtime.policies import candidate, is_served
    from rlver.tasks.studies.latency.latency import TimedPolicy, latency_of, lines

    if is_served(policy):
        raise ValueError(
            f"{policy}: a chat endpoint's answers are stored, and a stored answer takes no time; their times are in its ledger"
        )
    settings = as_evaluated(with_simulator(load_settings(params, variant), "scripted", None))  # whose own time is not counted
    people = validate_file(personas)[:limit]
    who = candidate(policy, settings, variant)
    jobs = jobs_of(people, who.name, settings.seed, 1)
    with keeping_no_dialogue(), who.open_conversation(settings, concurrency=1) as talk:
        talk.hold(jobs[:1])  # warms the model up
        timed = TimedPolicy(talk.policy, time.perf_counter)
        replace(talk, policy=timed).hold(jobs)
    persona_of = {job.dialogue_id: job.persona.persona_id for job in jobs}
    found = latency_of(timed.replies, persona_of, settings.evaluation.bootstrap_samples, settings.seed)
    if out:
        write_json(out, {"policy": who.name, **found})
    heading = f"{who.name}: {found['replies']} replies to {len(people)} personas, one at a time"
    typer.echo("\n".join([heading, *lines(found)]))
