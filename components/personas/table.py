"""The flat part of a persona as a table: one column a field, one rule a check, every failing row reported.

Columns are of type object and every check tests the type itself: a coerced column would turn 1.5 and true into 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd
import pandera.pandas as pa

from components.personas.needs import stated_need
from components.personas.persona import SPEAKING_STYLES, TRAITS_OF_CLASS, HiddenNeed, PersonaClass
from components.personas.rows import Problem, Row

MISSING = "is missing"
LONGEST_BACKGROUND, LONGEST_FIRST_LINE = 8000, 400  # characters
NEED_MARKER = re.compile(r"隐藏主题\W*[:：]")


def _text(shortest: int, longest: int) -> pa.Check:
    return pa.Check(
        lambda value: isinstance(value, str) and shortest <= len(value) <= longest and (value.strip() != "" or shortest == 0),
        element_wise=True,
        error=f"must be text of {shortest}..{longest} characters",
    )


def _one_of(allowed: Sequence[str]) -> pa.Check:
    return pa.Check(
        lambda value: isinstance(value, str) and value in allowed, element_wise=True, error=f"must be one of {', '.join(allowed)}"
    )


def _whole(lowest: int, highest: int | None = None) -> pa.Check:
    return pa.Check(
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= lowest and (highest is None or value <= highest),
        element_wise=True,
        error=f"must be a whole number of {lowest}..{'' if highest is None else highest}",
    )


def _three_traits(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) == 3 and all(isinstance(one, str) for one in value) and len(set(value)) == 3


_keeps_the_need = pa.Check(
    lambda value: not isinstance(value, str) or stated_need(value) is None, element_wise=True, error="states the hidden need"
)

_unique = pa.Check(  # a column's own uniqueness would hash values that have no hash
    lambda ids: ~ids.map(lambda one: one if isinstance(one, str) else object()).duplicated(keep=False), error="is used by more than one row"
)


def _row_check(field: str, reason: str, holds: Callable[[dict[str, Any]], bool]) -> pa.Check:
    """A rule over several fields; it is reported under `field`."""
    return pa.Check(
        lambda frame: pd.Series([holds(row) for row in frame.to_dict("records")], index=frame.index, dtype=bool),
        name=field,
        error=reason,
    )


def _traits_fit_class(row: dict[str, Any]) -> bool:
    if not _three_traits(row["traits"]) or row["persona_class"] not in list(PersonaClass):
        return True  # reported by the checks of those columns
    return set(row["traits"]) <= set(TRAITS_OF_CLASS[PersonaClass(row["persona_class"])])


def _need_text_is_kept_from(field: str) -> Callable[[dict[str, Any]], bool]:
    def holds(row: dict[str, Any]) -> bool:
        need_text, text = row["need_text"], row[field]
        if not isinstance(need_text, str) or not isinstance(text, str):
            return True  # reported by the checks of those columns
        return need_text not in text and NEED_MARKER.search(text) is None

    return holds


COLUMNS: dict[str, pa.Column] = {
    "persona_id": pa.Column(object, [_text(1, 80), _unique]),
    "language": pa.Column(object, _one_of(["en", "zh"])),
    "source": pa.Column(object, _one_of(["generated", "rlver"])),
    "split": pa.Column(object, _one_of(["train", "test"])),
    "hidden_need": pa.Column(object, _one_of(list(HiddenNeed))),
    "need_text": pa.Column(object, _text(8, 400)),
    "persona_class": pa.Column(object, _one_of(list(PersonaClass))),
    "traits": pa.Column(object, pa.Check(_three_traits, element_wise=True, error="must be three different words")),
    "portrait": pa.Column(object, _text(40, 4000)),
    "background": pa.Column(object, [_text(100, LONGEST_BACKGROUND), _keeps_the_need]),
    "first_line": pa.Column(object, [_text(2, LONGEST_FIRST_LINE), _keeps_the_need], nullable=True),
    "topic": pa.Column(object, _text(0, 200)),
    "age": pa.Column(object, _whole(16, 90), nullable=True),
    "gender": pa.Column(object, _one_of(["f", "m"]), nullable=True),
    "occupation": pa.Column(object, _text(1, 120), nullable=True),
    "name": pa.Column(object, _text(1, 80), nullable=True),
    "style": pa.Column(object, _one_of(SPEAKING_STYLES), nullable=True),
    "seed": pa.Column(object, _whole(0), nullable=True),
    "generator": pa.Column(object, _text(1, 240)),
}

TABLE = pa.DataFrameSchema(
    COLUMNS,
    checks=[
        _row_check("traits", "are not all of the persona's class", _traits_fit_class),
        _row_check("background", "contains the text of the need", _need_text_is_kept_from("background")),
        _row_check("first_line", "contains the text of the need", _need_text_is_kept_from("first_line")),
    ],
    strict=True,
)


def table_problems(file: str, rows: Sequence[Row]) -> Iterator[Problem]:
    """Every failing cell of the flat table. An empty sequence has none here: who reads the file reports that it is empty."""
    frame = pd.DataFrame({name: pd.Series([row.values.get(name) for row in rows], dtype=object) for name in COLUMNS})
    try:
        TABLE.validate(frame, lazy=True)
    except pa.errors.SchemaErrors as errors:
        lines = [row.line for row in rows]
        for schema_error in errors.schema_errors:
            yield from _problems(file, lines, schema_error)


def _problems(file: str, lines: list[int], error: Any) -> Iterator[Problem]:
    cases = error.failure_cases
    across = error.schema.name is None  # a rule over several fields
    field = error.check.name if across else error.schema.name
    reason = MISSING if error.reason_code.name == "SERIES_CONTAINS_NULLS" else None
    for index, value in dict(zip(cases["index"], cases["failure_case"], strict=True)).items():
        text = reason or error.check.error
        shown = "" if across or text == MISSING or "states" in text else f", got {_short(value)}"
        yield Problem(file, lines[int(index)], field, text + shown)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
