"""`rlver latency`: how long a person waits for a reply, and how much of that is thinking."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.options import PARAMS, TEST_PERSONAS, Personas, Variant
from rlver.tasks.runtime.options import ParamsAndOverlays as Params


def register(app: typer.Typer) -> None:
    app.command()(latency)


def latency(
    policy: Annotated[str, typer.Option("--policy", help="A model folder or hf:NAME.")],
    personas: Personas = TEST_PERSONAS,
    limit: Annotated[int, typer.Option(min=2, help="Talk with the first N personas.")] = 10,
    variant: Variant = None,
    out: Annotated[Path | None, options.out("Also write all figures to this JSON file.", options.FILE_OR_STREAM)] = None,
    params: Params = PARAMS,
) -> None:
    """Time the replies of a policy on this machine, one person at a time: seconds and tokens, and what of them is thinking."""
    from rlver.tasks.studies.latency.latency import measure_latency

    typer.echo(measure_latency(policy, personas, limit, variant, out, params))
