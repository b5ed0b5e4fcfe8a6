"""`rlver portrait`, `rlver judge`: how a policy supports people, counted from dialogue acts or marked by a model behind the endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, OfDialogues, Params

if TYPE_CHECKING:
    from rlver.tasks.studies.judge.judging import Marks

Out = Annotated[Path | None, options.out("Also write everything to this JSON file.", options.FILE_OR_STREAM)]


def register(app: typer.Typer) -> None:
    app.command()(portrait)
    app.command()(judge)


def portrait(
    files: Annotated[
        list[Path], typer.Argument(metavar="A [B …]", help="Transcript files or variants; checkpoints in order show a training.")
    ],
    personas: OfDialogues = None,
    out: Out = None,
    params: Params = PARAMS,
) -> None:
    """Estimate capabilities, cognition, strategies, acceptance and behaviour from transcripts alone, side by side, with 95% intervals."""
    from rlver.components.domain.files import write_json
    from rlver.components.scoring.portrait import portrait as drawn_from
    from rlver.components.scoring.splits import refuse_mixture
    from rlver.components.scoring.units import Sampling
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.appraisers import read_transcripts
    from rlver.tasks.runtime.people import people_met
    from rlver.tasks.runtime.progress import counted
    from rlver.tasks.studies.judge.judging import table

    settings = load_settings(params)
    recorded = {str(file): read_transcripts(file) for file in files}
    for dialogues in recorded.values():
        refuse_mixture(dialogues)
    people = people_met(personas, (dialogue for dialogues in recorded.values() for dialogue in dialogues))
    how = Sampling.over(people, settings.evaluation.bootstrap_samples, settings.seed)
    drawn = {file: drawn_from(recorded[file], how) for file in counted(list(recorded), "files")}
    if out:
        write_json(out, drawn)
    typer.echo(table(drawn))


def judge(
    transcripts: Annotated[Path, typer.Argument(help="A transcript file, or a variant's name.")],
    backend: Annotated[
        Literal["acts", "llm"], typer.Option(help="acts: count dialogue acts, an estimate | llm: a model behind the endpoint marks.")
    ] = "acts",
    model: Annotated[str | None, typer.Option("--model", help="llm: the model that judges, in place of judge.model.")] = None,
    personas: OfDialogues = None,
    out: Out = None,
    replay: options.Replay = False,
    budget: options.Budget = None,
    params: Params = PARAMS,
) -> None:
    """Mark the five capabilities of every dialogue from 1 to 5, and place the policy on the cognition map."""
    if backend == "acts":
        if model or replay or budget is not None:
            raise ValueError("--model, --replay and --budget are for --backend llm")
        portrait([transcripts], personas, out, params)
        return
    options.limit_endpoints(budget, replay)
    import asyncio

    from rlver.components.domain.files import write_json
    from rlver.components.rollout.episode import TooManyFailures
    from rlver.components.scoring.splits import refuse_mixture
    from rlver.components.scoring.units import Sampling
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.appraisers import read_transcripts
    from rlver.tasks.runtime.connections import to_user
    from rlver.tasks.runtime.people import people_met
    from rlver.tasks.runtime.progress import Steps
    from rlver.tasks.studies.judge.judging import JudgeParameters, marks_of, summary, table

    settings = load_settings(params)
    named = model or settings.judge.model
    if named is None:
        raise ValueError("no model judges: name one of the endpoint with --model, or as judge.model in params.yaml")
    parameters = JudgeParameters(**settings.judge.model_dump() | {"model": named})
    dialogues = [dialogue for dialogue in read_transcripts(transcripts) if dialogue.turns and dialogue.error is None]
    refuse_mixture(dialogues)
    people = people_met(personas, dialogues)
    connection = to_user(settings, [named], "judge.db")
    connection.check()

    async def asked() -> dict[str, Marks | str]:
        async with connection as endpoint:
            step = Steps(len(dialogues), "dialogues judged").step
            return await marks_of(endpoint, dialogues, parameters, settings.endpoint.concurrency, step)

    marks = asyncio.run(asked())
    unjudged = [why for why in marks.values() if isinstance(why, str)]
    if len(unjudged) > settings.rollout.max_failure_rate * len(dialogues):
        allowed = f"rollout.max_failure_rate allows {settings.rollout.max_failure_rate:.0%}"
        raise TooManyFailures(
            f"{len(unjudged)} of {len(dialogues)} dialogues could not be judged ({allowed}), so nothing is written; answered calls are kept; the first: "
            f"{unjudged[0]}"
        )
    found = summary(
        dialogues,
        marks,
        parameters,
        Sampling.over(people, settings.evaluation.bootstrap_samples, settings.seed),
    )
    if out:
        write_json(out, found)
    typer.echo(connection.line(), err=True)
    remark = f"\n{found['unscorable']} of {found['dialogues']} dialogues could not be judged" if found["unscorable"] else ""
    typer.echo(f"{found['method']}\n{table({str(transcripts): found})}{remark}")
