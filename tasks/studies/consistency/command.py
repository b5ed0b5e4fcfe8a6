"""`rlver consistency`: recorded replies appraised again and again, and how far the answers differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, TEST_PERSONAS, FiguresOut, Personas, Variant
from rlver.tasks.runtime.options import ParamsAndOverlays as Params

if TYPE_CHECKING:
    from rlver.components.domain.protocols import AppraiserKind
    from rlver.tasks.studies.consistency.consistency import Asking


def register(app: typer.Typer) -> None:
    app.command()(consistency)


def consistency(
    transcripts: Annotated[Path, typer.Argument(help="A transcript file; its words are what is appraised.")],
    appraiser: Annotated[
        str, typer.Option("--appraiser", metavar="KIND", help="scripted[:DIFFICULTY], llm[:DIFFICULTY] or distilled:FOLDER.")
    ] = "scripted",
    times: Annotated[int, typer.Option("--times", min=2, help="How often each reply is asked about, the first time included.")] = 5,
    personas: Personas = TEST_PERSONAS,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N dialogues.")] = None,
    out: FiguresOut = None,
    variant: Variant = None,
    budget: options.Budget = None,
    replay: options.Replay = False,
    params: Params = PARAMS,
) -> None:
    """Ask an appraiser about the same replies again: as they are, in a reordered context, about the same person in other words."""
    options.limit_endpoints(budget, replay)
    from rlver.components.domain.files import write_json
    from rlver.components.personas.schema import validate_file
    from rlver.components.rollout.transcripts import load_transcripts
    from rlver.components.scoring.units import Sampling
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.appraisers import appraiser_of
    from rlver.tasks.runtime.progress import counted
    from rlver.tasks.studies.consistency.consistency import as_json, ask_again, consistency_of, table

    settings = load_settings(params, variant)
    dialogues = load_transcripts(transcripts)[:limit]
    known = {persona.persona_id: persona for persona in validate_file(personas)}
    for one in dialogues:
        if one.persona_id not in known:
            raise ValueError(f"dialogue {one.dialogue_id}: persona {one.persona_id} is not in {personas}; name its file (--personas)")
    asked = appraiser_of(appraiser, settings)
    for one in dialogues:
        if refusal := asked.appraiser.refusal(one.turns):
            raise ValueError(f"{one.dialogue_id}: {refusal}")

    async def all_askings(who: AppraiserKind) -> list[Asking]:
        shown = counted(dialogues, "dialogues")
        return [asking for one in shown for asking in await ask_again(who, one, known[one.persona_id], times)]

    how = Sampling.over(known.values(), settings.evaluation.bootstrap_samples, settings.seed)
    rows = consistency_of(asked.run(all_askings), how)
    name = asked.appraiser.name
    if out:
        write_json(out, {"appraiser": name, "times": times, "dialogues": len(dialogues), "probes": [as_json(row) for row in rows]})
    lines = [f"{name}: {len(dialogues)} dialogues, every reply asked about {times} times, 95% intervals", "", table(rows)]
    typer.echo("\n".join([*lines, *([f"\n{asked.connection.line()}"] if asked.connection else [])]))
