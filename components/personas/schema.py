"""The door for personas: types and nested fields by pydantic, the flat table by pandera, each row with all its problems.

Nothing passes when any row is bad; whoever writes a file validates first.

The flat part of a persona as a table: one column a field, one rule a check, every failing row reported.

Reading rows of untrusted JSONL so that every bad one is kept with file, line, field and reason, and none is dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pandas as pd
import pandera.pandas as pa
from pydantic import ValidationError

from rlver.components.domain.files import read_unpacked, whole_characters
from rlver.components.domain.persona import SPEAKING_STYLES, TRAITS_OF_CLASS, HiddenNeed, Persona, PersonaClass
from rlver.components.personas.needs import stated_need
from rlver.components.personas.people import REACTION_KEYS

IMPORTED_REACTION_KEYS = frozenset({"high", "normal", "low", "serves", "misses", "text"})


def validate_file(path: Path) -> list[Persona]:
    """The personas of a JSONL file. Raises InvalidPersonas with every bad row, BadFile if the file cannot be read."""
    rows, problems = read_rows(path)
    return validate_rows(path.name, rows, problems)


def validate_rows(file: str, rows: Sequence[SourceRow], problems: Sequence[Problem] = ()) -> list[Persona]:
    """The personas of rows already read; `problems` are those found on the way, raised together with what is found here."""
    found = list(table_problems(file, rows))
    reported = {(one.line, one.field) for one in found}
    personas: list[Persona] = []
    for row in rows:
        try:
            persona = Persona.model_validate_json(json.dumps(row.values), strict=True)
        except ValidationError as error:
            found += [one for one in _type_problems(file, row, error) if (one.line, one.field) not in reported]
            continue
        personas.append(persona)
        found += [Problem(file, row.line, field, reason) for field, reason in _nested_problems(persona)]
    if problems or found:
        raise InvalidPersonas([*problems, *found])
    return personas


def validate_personas(file: str, personas: Sequence[Persona]) -> None:
    """Check personas about to be written as `file`, numbered as its lines. Raises InvalidPersonas."""
    validate_rows(file, [SourceRow(number, one.model_dump(mode="json")) for number, one in enumerate(personas, start=1)])


def _type_problems(file: str, row: SourceRow, error: ValidationError) -> Iterator[Problem]:
    for one in error.errors():
        yield Problem(file, row.line, ".".join(str(part) for part in one["loc"] if part != "__root__"), one["msg"])


def _nested_problems(persona: Persona) -> Iterator[tuple[str, str]]:
    if persona.source == "generated":
        yield from _generated_problems(persona)
    else:
        if persona.original is None:
            yield "original", "an imported persona keeps its source record"
        unknown = sorted(set(persona.reactions) - IMPORTED_REACTION_KEYS)
        if unknown:
            yield "reactions", f"unknown key {', '.join(unknown)}"
    if persona.story is not None:
        for number, line in enumerate(persona.story.lines):
            need = stated_need(line)
            if need is not None:
                yield f"story.lines.{number}", f"states the hidden need ({need})"


def _generated_problems(persona: Persona) -> Iterator[tuple[str, str]]:
    for field in ("story", "first_line", "age", "gender", "occupation", "name", "style", "seed"):
        if getattr(persona, field) is None:
            yield field, "a generated persona has one"
    if sorted(persona.reactions) != sorted(REACTION_KEYS):
        yield "reactions", f"expected the keys {', '.join(REACTION_KEYS)}"
    said = [] if persona.story is None else list(persona.story.lines)
    if len(set(said)) != len(said):
        yield "story.lines", "the same line twice"
    presses = () if persona.story is None else persona.story.presses
    if (persona.kind is None) is bool(presses):
        yield "story.presses", "a generated persona of a kind has some, and no other has"
    if any("{" in text for text in (persona.portrait, persona.background, *said, *presses, *persona.reactions.values())):
        yield "background", "a placeholder was left unfilled"


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


def table_problems(file: str, rows: Sequence[SourceRow]) -> Iterator[Problem]:
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


class SourceRow(NamedTuple):
    line: int
    values: dict[str, Any]


def read_rows(path: Path) -> tuple[list[SourceRow], list[Problem]]:
    """Rows of a JSONL file, plain or gzipped (told by its first bytes), and the lines that are no JSON object.

    Raises BadFile if there is no such file or it cannot be unpacked. A file without rows is a problem of its own.
    """
    rows: list[SourceRow] = []
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
            rows.append(SourceRow(number, values))
        else:
            problems.append(Problem(path.name, number, "row", f"expected a JSON object, got {type(values).__name__}"))
    if not rows and not problems:
        problems.append(Problem(path.name, 0, "file", "has no rows"))
    return rows, problems


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
