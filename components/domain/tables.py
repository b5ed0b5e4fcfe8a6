"""Tables that enter from files: typed pandera models, and every bad cell named by its row, column and value.

A cell is never turned into the type of its column: JSON's 30.0 is no age, and true is not 1. A cell of another type is a fault of its own, and
stands as missing in the table that the checks of the model see. Needs the extra `personas`, as no other module of this room does.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pandera.pandas as pa

from rlver.components.domain.printable import whole_characters

MISSING, REPEATED = "is missing", "is used by more than one row"
HIGHEST_WHOLE = 2**63 - 1  # a column of whole numbers holds 64 bits
SHOWN = 3
BLANK = "\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # Arrow's own \\s knows ASCII alone


class Fault(NamedTuple):
    """One cell that is wrong; `row` counts from 0."""

    row: int
    column: str
    reason: str


def text(shortest: int, longest: int, **more: Any) -> Any:
    """A column of text that is not blank."""
    error = f"must be text of {shortest}..{longest} characters"
    if shortest:
        more["str_contains"] = {"pattern": f"[^{BLANK}]", "error": error}
    length: dict[str, Any] = {"min_value": shortest, "max_value": longest, "error": error}
    return pa.Field(str_length=length, **more)


def one_of(allowed: Sequence[str], **more: Any) -> Any:
    return pa.Field(isin={"allowed_values": list(allowed), "error": f"must be one of {', '.join(allowed)}"}, **more)


def whole(lowest: int, highest: int = HIGHEST_WHOLE, **more: Any) -> Any:
    error = f"must be a whole number of {lowest}..{'' if highest == HIGHEST_WHOLE else highest}"
    return pa.Field(in_range={"min_value": lowest, "max_value": highest, "error": error}, **more)


def number(lowest: float, highest: float = math.inf, **more: Any) -> Any:
    error = f"must be a number of {lowest:g}..{'' if highest == math.inf else f'{highest:g}'}"
    return pa.Field(in_range={"min_value": lowest, "max_value": highest, "error": error}, **more)


def table_faults(model: type[pa.DataFrameModel], rows: Sequence[Mapping[str, Any]]) -> list[Fault]:
    """Every cell of `rows` that is not as `model` wants it, first rows first. Keys that the model lacks are not looked at."""
    columns = model.to_schema().columns
    strangers = {
        (index, name)
        for name, column in columns.items()
        for index, row in enumerate(rows)
        if (value := row.get(name)) is not None and not _is_of(str(column.dtype), value)
    }
    found = {Fault(index, name, _shown(_wanted(columns[name]), rows[index][name])) for index, name in strangers}
    frame = pd.DataFrame(
        {
            name: pd.Series(
                [None if (index, name) in strangers else row.get(name) for index, row in enumerate(rows)], dtype=column.dtype.type
            )
            for name, column in columns.items()
        }
    )
    try:
        model.validate(frame, lazy=True)
    except pa.errors.SchemaErrors as errors:
        for error in errors.schema_errors:
            found.update(fault for fault in _faults(error, rows) if (fault.row, fault.column) not in strangers)
    return sorted(found)


def listed(file: Path | str, lines: Sequence[int], faults: Sequence[Fault]) -> str:
    """The first faults in one line, each with file, line and column; `lines` are those of the rows."""
    shown = "; ".join(f"{file}:{lines[one.row]}: {one.column}: {one.reason}" for one in faults[:SHOWN])
    return shown + (f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else "")


def _is_of(dtype: str, value: object) -> bool:
    if dtype.startswith("string"):
        return isinstance(value, str) and whole_characters(value) == value
    if dtype == "Int64":
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= HIGHEST_WHOLE
    if dtype == "Float64":
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max  # NaN is not
    return True


def _wanted(column: Any) -> str:
    """What the first check of a column says, or else its type."""
    return column.checks[0].error if column.checks else {"Float64": "must be a number", "Int64": "must be a whole number"}.get(
        str(column.dtype), "must be text"
    )  # fmt: skip


def _faults(error: Any, rows: Sequence[Mapping[str, Any]]) -> Iterator[Fault]:
    cases, code = error.failure_cases, error.reason_code.name
    if not isinstance(cases, pd.DataFrame) or "index" not in cases or cases["index"].isna().any():
        raise error  # not about a cell: a check that itself failed
    across = "column" in cases  # a rule over several columns, named for the one it is reported under
    column = error.check.name if across else error.schema.name
    reason = {"SERIES_CONTAINS_NULLS": MISSING, "SERIES_CONTAINS_DUPLICATES": REPEATED}.get(code) or error.check.error
    for index in dict.fromkeys(map(int, cases["index"])):
        value = rows[index].get(column)
        if value is None and reason == REPEATED:
            continue  # that it is missing is reported
        yield Fault(index, column, reason if across or reason == MISSING else _shown(reason, value))


def _shown(reason: str, value: object) -> str:
    """A text that gives the need away is not said again."""
    if reason.startswith("states"):
        return reason
    got = repr(value)
    return f"{reason}, got {got if len(got) <= 60 else f'{got[:57]}...'}"
