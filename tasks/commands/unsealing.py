"""Opening the sealed test: a line in a file of git first, then the personas. No earlier opening may lie there uncommitted."""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
import json
import os
import subprocess
from pathlib import Path

from rlver.components.domain.files import write_jsonl
from rlver.components.personas.schema import validate_personas
from rlver.components.personas.sealed import compose_sealed

OPENINGS = Path("sealed-openings.csv")
COLUMNS = ("opening", "date", "seed", "personas", "sha256", "why")
SHORTEST_REASON = 10  # characters


def unseal(out: Path, count: int, seed: int, why: str) -> int:
    """Write `count` sealed personas to `out`; returns the number of this opening, from 1.

    Raises ValueError where no reason is given, outside git, or while an earlier opening is not committed.
    """
    why = " ".join(why.split())
    if len(why) < SHORTEST_REASON:
        raise ValueError(f"say in --why what the sealed test is opened for, in {SHORTEST_REASON} characters or more")
    _require_committed()
    personas = compose_sealed(seed, count)
    validate_personas(out.name, personas)
    rows = [persona.model_dump(mode="json") for persona in personas]
    number = _opened() + 1
    sha256 = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    _append((number, datetime.datetime.now(datetime.UTC).date().isoformat(), seed, count, sha256, why))
    write_jsonl(out, rows)
    return number


def _opened() -> int:
    return max(0, len(OPENINGS.read_text("utf-8").splitlines()) - 1) if OPENINGS.exists() else 0


def _append(line: tuple[object, ...]) -> None:
    is_new = not OPENINGS.exists()
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, line] if is_new else [line])
    with OPENINGS.open("a", encoding="utf-8") as file:
        file.write(text.getvalue())
        file.flush()
        os.fsync(file.fileno())


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
        raise ValueError(f"an earlier opening is not in git yet: git add {OPENINGS} && git commit")
