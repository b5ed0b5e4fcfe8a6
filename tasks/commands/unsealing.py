"""Opening the sealed test: a line in a file of git first, then the personas. No earlier line may lie there uncommitted."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from rlver.tasks.runtime import options
from rlver.tasks.runtime.sealed_record import OPENINGS as OPENINGS
from rlver.tasks.runtime.sealed_record import nearest_record, record_opening

SHORTEST_REASON = 10  # characters


def unseal(
    out: Annotated[Path, options.out("The persona file to write.")],
    why: Annotated[str, typer.Option(help="What the sealed test is opened for; stands in sealed-openings.csv.")],
    count: Annotated[int, typer.Option(min=1, help="Personas.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same file.")] = 7,
) -> str:
    """Open the sealed test: scenarios and hints that no other command reads. Each opening is a numbered, dated line for git."""
    from rlver.components.domain.files import write_jsonl
    from rlver.components.personas.schema import validate_personas
    from rlver.components.personas.sealed import compose_sealed

    why = " ".join(why.split())
    if len(why) < SHORTEST_REASON:
        raise ValueError(f"say in --why what the sealed test is opened for, in {SHORTEST_REASON} characters or more")
    record = os.path.relpath(nearest_record())
    _require_committed(record)
    personas = compose_sealed(seed, count)
    validate_personas(out.name, personas)
    rows = [persona.model_dump(mode="json") for persona in personas]
    sha256 = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    number = record_opening(seed, count, sha256, why)
    write_jsonl(out, rows)
    return f"{out}: {count} personas of the sealed test\nopening {number} stands in {record}: git add {record} && git commit"


def _require_committed(record: str) -> None:
    try:
        asked = subprocess.run(
            ("git", "status", "--porcelain", "--ignored", "--", record), capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"git does not answer ({error}): the sealed test is opened in a git repository only") from error
    if asked.returncode != 0:
        raise ValueError("the sealed test is opened in a git repository only, which keeps the list of openings: git init")
    if asked.stdout.strip():
        raise ValueError(f"an earlier opening or look is not in git yet: git add {record} && git commit")
