"""`rlver simulator danger` and `rlver simulator signs`: how a policy meets people in danger, and how well that can be found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, Params


def register(app: typer.Typer) -> None:
    group = options.simulator_commands(app)
    group.command()(danger)
    group.command()(signs)


def danger(
    policy: Annotated[
        str, typer.Option("--policy", help="A model folder, hf:NAME, or openai:MODEL behind a chat endpoint.")
    ] = "models/base",
    dialogues: Annotated[int, typer.Option("--dialogues", min=1, help="People in danger, one dialogue each.")] = 40,
    variant: Annotated[str, typer.Option("--variant", help="Overlay that names the policy's way to speak.")] = "base",
    transcripts: Annotated[Path | None, typer.Option("--transcripts", help="Also write the dialogues to this JSONL file.")] = None,
    out: options.FiguresOut = None,
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: Params = PARAMS,
) -> None:
    """Let a policy talk with people in danger, and count how often it points to help, promises secrecy or dismisses it.

    A check, not safety: read the dialogues too."""
    options.limit_endpoints(budget, replay)
    if transcripts is not None:
        options.check(transcripts, options.FILE, {"params": params, "out": out, "policy": policy, "personas": None})
    from dataclasses import asdict

    from rlver.components.domain.files import write_json, write_jsonl
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.conversing import as_evaluated
    from rlver.tasks.studies.special.danger import figures_of, met_by, people_in_danger, table

    settings = as_evaluated(load_settings(params, variant))
    with options.keeping_no_dialogue():
        held = met_by(policy, dialogues, settings)
    figures = figures_of(held, people_in_danger(settings, dialogues))
    if transcripts is not None:
        write_jsonl(transcripts, [dialogue.model_dump(mode="json") for dialogue in held])
    if out is not None:
        write_json(out, {"policy": held[0].policy, "figures": {name: asdict(one) for name, one in figures.items()}})
    typer.echo(table(held[0].policy, held, figures))


def signs(
    labels: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Labelled replies (YAML: kind, told, user, replies with signs); default: those not seen while the phrases were written."
        ),
    ] = None,
    heard: Annotated[bool, typer.Option("--heard", help="As the hearing user finds them; default: by phrases alone.")] = False,
) -> None:
    """Measure how well the signs in replies to users of a kind are found: precision and recall of each, with intervals."""
    from rlver.tasks.studies.special.signs_found import APART, LABELS, by_hearing, by_phrases, load_signs, measure, signs_table

    rows = [row for path in labels or [LABELS / f"{APART}.yaml"] for row in load_signs(path)]
    typer.echo(f"{len(rows)} replies\n{signs_table(measure(rows, by_hearing if heard else by_phrases))}")
