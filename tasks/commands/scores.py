"""`rlver score`, `compare`: the numbers of dialogues."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, OfDialogues, Params


def register(app: typer.Typer) -> None:
    for command in (score, compare):
        app.command()(command)


def score(
    transcripts: Annotated[Path, typer.Argument(help="A transcript file, or a variant's name.")],
    base: Annotated[Path | None, typer.Option("--base", help="Transcripts (or variant) to pair with, persona by persona.")] = None,
    personas: OfDialogues = None,
    out: Annotated[Path | None, options.out("Also write all metrics to this JSON file.", options.FILE_OR_STREAM)] = None,
    params: Params = PARAMS,
) -> str:
    """Score a transcript file: mean final emotion, success and failure rates, with 95% confidence intervals."""
    from rlver.components.domain.files import write_json
    from rlver.components.rollout.transcripts import uncollected
    from rlver.components.scoring.portrait import portrait
    from rlver.components.scoring.sentient import sentient_metrics
    from rlver.components.scoring.units import Sampling
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.appraisers import read_transcripts
    from rlver.tasks.runtime.boards import score_text
    from rlver.tasks.runtime.people import people_met

    settings = load_settings(params)
    with uncollected():
        dialogues, compared = read_transcripts(transcripts), None if base is None else read_transcripts(base)
        people = people_met(personas, dialogues)
        how = Sampling.over(people, settings.evaluation.bootstrap_samples, settings.seed)
        metrics = sentient_metrics(
            dialogues,
            compared,
            how,
            classes={persona.persona_id: str(persona.persona_class) for persona in people},
            settings_digest=settings.digest(),
        )
        if out:
            write_json(out, {**metrics, "portrait": portrait(dialogues, how)})
    return score_text(metrics)


def compare(
    files: Annotated[list[Path], typer.Argument(metavar="A [B …]", help="Transcript files, or names of variants.")],
    published: Annotated[
        bool, typer.Option("--published", help="Beside the published scores of the SAGE paper, which have no CI.")
    ] = False,
    personas: OfDialogues = None,
    params: Params = PARAMS,
) -> str:
    """Put policies on a leaderboard with 95% intervals; of two, also the paired differences on the personas they share, b minus a."""
    from rlver.components.scoring.leaderboard import standing
    from rlver.components.scoring.units import Sampling
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.appraisers import read_transcripts
    from rlver.tasks.runtime.boards import leaderboard, paired
    from rlver.tasks.runtime.people import people_met

    settings = load_settings(params)
    sides = [(str(file), read_transcripts(file)) for file in files]
    people = people_met(personas, (dialogue for _, dialogues in sides for dialogue in dialogues))
    how = Sampling.over(people, settings.evaluation.bootstrap_samples, settings.seed)
    differences = [paired(sides[0][1], sides[1][1], how)] if len(sides) == 2 else []
    return "\n\n".join([*differences, leaderboard([standing(dialogues, name, how) for name, dialogues in sides], published)])
