"""`rlver simulator calibrate`: hold dialogues of the base policy, and lay the users' figures beside the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, Params


def register(app: typer.Typer) -> None:
    options.simulator_commands(app).command()(calibrate)


def calibrate(
    model: Annotated[str, typer.Option("--model", help="The base policy: a folder in Hugging Face format, or hf:NAME.")] = "models/base",
    personas: Annotated[Path, typer.Option("--personas", help="The train personas (JSONL).")] = Path("data/personas/train.jsonl"),
    dialogues: Annotated[int, typer.Option("--dialogues", min=1, help="Dialogues with each version of the user.")] = 500,
    variant: Annotated[str, typer.Option("--variant", help="Overlay that names the users and the policy's way to speak.")] = "base",
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: Params = PARAMS,
) -> None:
    """Measure how demanding vanilla and challenging users are, beside the published figures; exit 1 when one is off.

    Of LLM users, who mark no cues, there is strategy acceptance only, in dialogues with vanilla ones. Users who hear read slowly: an hour or more."""
    options.limit_endpoints(budget, replay)
    from rlver.components.domain.files import BadFile
    from rlver.components.personas.schema import validate_file
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.conversing import as_evaluated
    from rlver.tasks.runtime.policies import candidate, refuse_served
    from rlver.tasks.studies.calibration.calibration import difficulties_held, figures_of, held_with_each_user, table, verdict

    settings = as_evaluated(load_settings(params, variant))
    felt, *spoken = (part.name for part in settings.simulator.parts)
    if felt not in ("scripted", "heard", "llm") or "llm" in (felt if spoken else "", *spoken):
        raise ValueError(
            f"variant {variant}: its users ({'+'.join((felt, *spoken))}) are not calibrated, only scripted, heard and llm ones are"
        )
    people = validate_file(personas)
    # What is tuned until it fits must not see the personas that policies are compared on.
    if strangers := [persona.persona_id for persona in people if persona.split != "train"]:
        raise BadFile(f"{personas}: {strangers[0]} is no train persona; users are calibrated on train personas only")
    if foreign := [persona.persona_id for persona in people if persona.language != "en"]:
        raise BadFile(f"{personas}: {foreign[0]} does not speak English, the only language in which strategies are read")
    versions = len(difficulties_held(felt == "llm"))
    refuse_served(model)
    rows = min(settings.evaluation.concurrency, dialogues * versions)
    with options.keeping_no_dialogue(), candidate(model, settings, variant).open_conversation(settings, rows) as talk:
        figures = figures_of(talk, held_with_each_user(talk, people, dialogues, settings), people, settings)
    typer.echo(f"{table(figures)}\n{verdict(figures)}")
    if any(figure.is_off for figure in figures):
        raise typer.Exit(1)
