"""Opening the sealed test: a line in a file of git first, then the personas. No earlier line may lie there uncommitted."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

from rlver.components.domain.files import write_jsonl
from rlver.components.personas.schema import validate_personas
from rlver.components.personas.sealed import compose_sealed
from rlver.tasks.runtime.sealed_record import OPENINGS as OPENINGS
from rlver.tasks.runtime.sealed_record import record_opening

SHORTEST_REASON = 10  # characters


def unseal(out: Path, count: int, seed: int, why: str) -> int:
    """Write `count` sealed personas to `out`; returns the number of this opening, from 1.

    Raises ValueError where no reason is given, outside git, or while an earlier opening or look is not committed.
    """
    why = " ".join(why.split())
    if len(why) < SHORTEST_REASON:
        raise ValueError(f"say in --why what the sealed test is opened for, in {SHORTEST_REASON} characters or more")
    _require_committed()
    personas = compose_sealed(seed, count)
    validate_personas(out.name, personas)
    rows = [persona.model_dump(mode="json") for persona in personas]
    sha256 = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    number = record_opening(seed, count, sha256, why)
    write_jsonl(out, rows)
    return number


def _require_committed() -> None:
    try:
        asked = subprocess.run(
            ("git", "status", "--porcelain", "--ignored", "--", str(OPENINGS)), capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"git does not answer ({error}): the sealed test is opened in a git repository only") from error
    if asked.returncode != 0:
        raise ValueError("the sealed test is opened in a git repository only, which keeps the list of openings: git init")
    if asked.stdout.strip():
        raise ValueError(f"an earlier opening or look is not in git yet: git add {OPENINGS} && git commit")
