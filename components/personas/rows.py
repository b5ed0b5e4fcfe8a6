"""Reading rows of untrusted JSONL so that every bad one is kept with file, line, field and reason, and none is dropped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from components.files import read_unpacked, whole_characters

SHOWN = 3


class Problem(NamedTuple):
    """One thing that is wrong with one field of one row; line 0 means the file as a whole."""

    file: str
    line: int
    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.field}: {self.reason}"


class InvalidPersonas(ValueError):
    """Personas that must not be used: a one-line summary with the first problems; `problems` has all of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(set(problems))
        rows = len({(one.file, one.line) for one in self.problems})
        shown = "; ".join(str(one) for one in self.problems[:SHOWN])
        more = f"; and {len(self.problems) - SHOWN} more" if len(self.problems) > SHOWN else ""
        super().__init__(f"{rows} bad row(s), {len(self.problems)} problem(s): {shown}{more}")


class Row(NamedTuple):
    line: int
    values: dict[str, Any]


def read_rows(path: Path) -> tuple[list[Row], list[Problem]]:
    """Rows of a JSONL file, plain or gzipped (told by its first bytes), and the lines that are no JSON object.

    Raises BadFile if there is no such file or it cannot be unpacked. A file without rows is a problem of its own.
    """
    rows: list[Row] = []
    problems: list[Problem] = []
    for number, line in enumerate(read_unpacked(path).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            values = whole_characters(json.loads(line.decode("utf-8"), parse_constant=_refuse))
        except (ValueError, RecursionError) as error:
            problems.append(Problem(path.name, number, "row", f"not valid JSON: {error}"))
            continue
        if isinstance(values, dict):
            rows.append(Row(number, values))
        else:
            problems.append(Problem(path.name, number, "row", f"expected a JSON object, got {type(values).__name__}"))
    if not rows and not problems:
        problems.append(Problem(path.name, 0, "file", "has no rows"))
    return rows, problems


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
