"""`rlver fluency`: replies read by the model that a policy came from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rlver.tasks.runtime.options import PARAMS, FiguresOut, OfDialogues, Variant, refuse_twice
from rlver.tasks.runtime.options import ParamsAndOverlays as Params


def register(app: typer.Typer) -> None:
    app.command()(fluency)


def fluency(
    transcripts: Annotated[list[Path], typer.Argument(help="Transcript files; the first is what the others are compared with.")],
    model: Annotated[
        str, typer.Option("--model", help="The model that reads them, before any training: a folder, package:NAME or hf:NAME.")
    ],
    personas: OfDialogues = None,
    variant: Variant = None,
    out: FiguresOut = None,
    params: Params = PARAMS,
) -> None:
    """Bits a token of replies under an untrained model, what they repeat, and how many are said to several people word for word."""
    from rlver.components.domain.files import write_json
    from rlver.components.policy.load import load_policy
    from rlver.components.rollout.transcripts import load_transcripts
    from rlver.components.scoring.behaviour import behaviour, known
    from rlver.components.scoring.units import Sampling
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime.brackets import in_brackets
    from rlver.tasks.runtime.people import people_met
    from rlver.tasks.runtime.policies import policy_location
    from rlver.tasks.runtime.progress import counted
    from rlver.tasks.studies.fluency.fluency import bits_of, bits_per_token, check_units, more_bits

    settings = load_settings(params, variant)
    refuse_twice(transcripts)
    # As the portrait: a failed dialogue ends anywhere.
    recorded = {path: [one for one in load_transcripts(path) if one.error is None] for path in transcripts}
    people = people_met(personas, (dialogue for dialogues in recorded.values() for dialogue in dialogues))
    how = Sampling.over(people, settings.evaluation.bootstrap_samples, settings.seed)
    read_by, tokenizer = load_policy(policy_location(model))
    rows: dict[str, dict[str, Any]] = {}
    base = None
    for path, dialogues in recorded.items():
        check_units({one.persona_id for one in dialogues if one.turns}, how, f"{path}: its replies")
        bits = bits_of(read_by, tokenizer, settings.policy.thinking, counted(dialogues, path.name))
        base = bits if base is None else base
        measured = behaviour(dialogues, how)
        rows[str(path)] = {
            "bits_per_token": known(bits_per_token(bits, how)),
            "more_than_first": known(more_bits(bits, base, how)),
            **{name: measured[name] for name in ("repeated_runs", "stock_replies", "different_words")},
        }
    if out:
        write_json(out, {"model": model, "transcripts": rows})
    for name_of_file, row in rows.items():
        typer.echo(name_of_file)
        for name, value in row.items():
            ends = value["ci95"]
            typer.echo(f"  {name:16} " + (f"{value['value']:.3f} {in_brackets(ends, '.3f')}" if ends else f"– ({value['reason']})"))
