"""The door for personas: types and nested fields by pydantic, the flat table by pandera, each row with all its problems.

Nothing passes when any row is bad, and no bad row is dropped; whoever writes a file validates first.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pandas as pd
import pandera.pandas as pa
from pandera.typing import Series
from pydantic import ValidationError

from rlver.components.domain import looks
from rlver.components.domain.files import BadFile, read_unpacked, whole_characters
from rlver.components.domain.persona import SPEAKING_STYLES, TRAITS_OF_CLASS, HiddenNeed, Persona, PersonaClass
from rlver.components.domain.printable import one_line
from rlver.components.domain.tables import SHOWN, one_of, table_faults, text, whole
from rlver.components.personas.needs import WORDS, stated_need
from rlver.components.personas.people import REACTION_KEYS

IMPORTED_REACTION_KEYS = frozenset({"high", "normal", "low", "serves", "misses", "text"})


def validate_file(path: Path) -> list[Persona]:
    """The personas of a JSONL file. Raises InvalidPersonas with every bad row, BadFile if the file cannot be read."""
    rows, problems = read_rows(path)
    if rows and "turns" in rows[0].values:
        raise BadFile(f"{path}: these are dialogues, not personas; name the file of the personas they were held with")
    personas = validate_rows(path.name, rows, problems)
    looks.tell(one.persona_id for one in personas)
    return personas


def validate_rows(file: str, rows: Sequence[SourceRow], problems: Sequence[Problem] = ()) -> list[Persona]:
    """The personas of rows already read; `problems` are those found on the way, raised together with what is found here."""
    found = [
        Problem(file, rows[row].line, column, reason) for row, column, reason in table_faults(PersonaTable, [one.values for one in rows])
    ]
    reported = {(one.line, one.field) for one in found}
    personas: list[Persona] = []
    for row in rows:
        try:
            persona = Persona.model_validate_json(json.dumps(row.values), strict=True)
        except ValidationError as error:
            for one in error.errors():
                field = ".".join(str(part) for part in one["loc"])
                if (row.line, field) not in reported:
                    found.append(Problem(file, row.line, field, one["msg"]))
            continue
        personas.append(persona)
        found += [Problem(file, row.line, field, reason) for field, reason in _nested_problems(persona)]
    if problems or found:
        raise InvalidPersonas([*problems, *found])
    return personas


def validate_personas(file: str, personas: Sequence[Persona]) -> None:
    """Check personas about to be written as `file`, numbered as its lines. Raises InvalidPersonas."""
    validate_rows(file, [SourceRow(number, one.model_dump(mode="json")) for number, one in enumerate(personas, start=1)])


def _nested_problems(persona: Persona) -> Iterator[tuple[str, str]]:
    if persona.source == "generated":
        yield from _generated_problems(persona)
    else:
        if persona.original is None:
            yield "original", "an imported persona keeps its source record"
        unknown = sorted(set(persona.reactions) - IMPORTED_REACTION_KEYS)
        if unknown:
            yield "reactions", f"unknown key {', '.join(unknown)}"
    if any(words.need_text == persona.need_text for need, words in WORDS.items() if need is not persona.hidden_need):
        yield "need_text", "is the sentence of another need"
    told = {"reactions": persona.reactions} | ({"story": persona.story.model_dump()} if persona.story else {})
    for field, one in _texts(told):
        if not one.strip() or len(one) > LONGEST_BACKGROUND:
            yield field, f"must be text of 1..{LONGEST_BACKGROUND} characters"
        need = stated_need(one) if field.startswith(("story.lines", "story.presses")) else None
        if need is not None:
            yield field, f"states the hidden need ({need})"
    if persona.story is not None and not persona.story.lines:
        yield "story.lines", "is empty"


def _texts(value: object, *place: str) -> Iterator[tuple[str, str]]:
    """Every text in dictionaries and tuples, with its place: story.lines.3."""
    if isinstance(value, str):
        yield ".".join(place), value
    elif isinstance(value, dict | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(inner, *place, str(key))


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
    if (persona.kind is None and persona.split != "sealed") is bool(presses):
        yield "story.presses", "a generated persona of a kind or of the sealed test has some, and no other has"
    if persona.kind is not None and not persona.persona_id.startswith(f"en-{persona.kind}-"):
        yield "persona_id", "that of a persona of a kind begins with en-KIND-: by it the scores of a dialogue know the kind"
    if any(
        "{" in text
        for text in (
            *(persona.portrait, persona.background, persona.first_line or "", *said, *presses, *persona.reactions.values()),
            "" if persona.story is None else persona.story.topic,
        )
    ):
        yield "background", "a placeholder was left unfilled"


LONGEST_BACKGROUND, LONGEST_FIRST_LINE = 8000, 400  # characters
NEED_MARKER = re.compile(r"隐藏主题\W*[:：]")


class PersonaTable(pa.DataFrameModel):
    """The flat part of a persona; what is nested is pydantic's."""

    persona_id: Series[pd.StringDtype] = text(1, 80, unique=True)
    language: Series[pd.StringDtype] = one_of(["en", "zh"])
    source: Series[pd.StringDtype] = one_of(["generated", "rlver"])
    split: Series[pd.StringDtype] = one_of(["train", "test", "sealed"])
    hidden_need: Series[pd.StringDtype] = one_of(list(HiddenNeed))
    need_text: Series[pd.StringDtype] = text(8, 400)
    persona_class: Series[pd.StringDtype] = one_of(list(PersonaClass))
    traits: Series[object]
    portrait: Series[pd.StringDtype] = text(40, 4000)
    background: Series[pd.StringDtype] = text(100, LONGEST_BACKGROUND)
    first_line: Series[pd.StringDtype] = text(2, LONGEST_FIRST_LINE, nullable=True)
    topic: Series[pd.StringDtype] = text(0, 200)
    age: Series[pd.Int64Dtype] = whole(16, 90, nullable=True)
    gender: Series[pd.StringDtype] = one_of(["f", "m"], nullable=True)
    occupation: Series[pd.StringDtype] = text(1, 120, nullable=True)
    name: Series[pd.StringDtype] = text(1, 80, nullable=True)
    style: Series[pd.StringDtype] = one_of(SPEAKING_STYLES, nullable=True)
    seed: Series[pd.Int64Dtype] = whole(0, nullable=True)
    generator: Series[pd.StringDtype] = text(1, 240)

    class Config:
        strict = True

    @pa.check("persona_id", error="must be one line that can be printed")
    def is_one_line(cls, ids: pd.Series[str]) -> pd.Series[bool]:
        return ids.map(lambda one: one_line(one) == one).astype(bool)

    @pa.check("traits", error="must be three different words")
    def three_traits(cls, traits: pd.Series[Any]) -> pd.Series[bool]:
        return traits.map(_three_traits).astype(bool)

    @pa.check("background", "first_line", error="states the hidden need")
    def keeps_the_need(cls, said: pd.Series[str]) -> pd.Series[bool]:
        return said.map(lambda one: stated_need(one) is None).astype(bool)

    # A rule over several columns is named for the one it is reported under.
    @pa.dataframe_check(name="split", error="is not the one that persona_id names")
    def split_is_that_of_the_id(cls, table: pd.DataFrame) -> pd.Series[bool]:
        return _each(table, _split_of_the_id)

    @pa.dataframe_check(name="traits", error="are not all of the persona's class")
    def traits_fit_class(cls, table: pd.DataFrame) -> pd.Series[bool]:
        return _each(table, _traits_fit_class)

    @pa.dataframe_check(name="background", error="contains the text of the need")
    def background_hides_the_need(cls, table: pd.DataFrame) -> pd.Series[bool]:
        return _each(table, lambda row: _hides_the_need(row, "background"))

    @pa.dataframe_check(name="first_line", error="contains the text of the need")
    def first_line_hides_the_need(cls, table: pd.DataFrame) -> pd.Series[bool]:
        return _each(table, lambda row: _hides_the_need(row, "first_line"))


def _each(table: pd.DataFrame, holds: Callable[[dict[Any, Any]], bool]) -> pd.Series[bool]:
    return pd.Series([holds(row) for row in table.to_dict("records")], index=table.index, dtype=bool)


def _three_traits(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) == 3 and all(isinstance(one, str) for one in value) and len(set(value)) == 3


def _traits_fit_class(row: Mapping[str, Any]) -> bool:
    if not _three_traits(row["traits"]) or row["persona_class"] not in list(PersonaClass):
        return True  # reported by the checks of those columns
    return set(row["traits"]) <= set(TRAITS_OF_CLASS[PersonaClass(row["persona_class"])])


def _split_of_the_id(row: Mapping[str, Any]) -> bool:
    """The record of the sealed test knows its personas by their ids alone."""
    if not isinstance(row["persona_id"], str) or not isinstance(row["split"], str):
        return True  # reported by the checks of those columns
    return looks.split_in(row["persona_id"]) in (None, row["split"])


def _hides_the_need(row: Mapping[str, Any], field: str) -> bool:
    need_text, said = row["need_text"], row[field]
    if not isinstance(need_text, str) or not isinstance(said, str):
        return True  # reported by the checks of those columns
    return need_text not in said and NEED_MARKER.search(said) is None


class Problem(NamedTuple):
    """One thing that is wrong with one field of one row; line 0 means the file as a whole."""

    file: str
    line: int
    field: str
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.field}: {self.reason}"


class InvalidPersonas(ValueError):
    """Personas that must not be used: a one-line summary with the first problems; `problems` has all of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(set(problems))
        rows = len({(one.file, one.line) for one in self.problems if one.line})
        shown = "; ".join(str(one) for one in self.problems[:SHOWN])
        more = f"; and {len(self.problems) - SHOWN} more" if len(self.problems) > SHOWN else ""
        super().__init__(f"{f'{rows} bad row(s), ' if rows else ''}{len(self.problems)} problem(s): {shown}{more}")


class SourceRow(NamedTuple):
    line: int
    values: dict[str, Any]


def read_rows(path: Path) -> tuple[list[SourceRow], list[Problem]]:
    """Rows of a JSONL file, plain or gzipped (told by its first bytes), and the lines that are no JSON object.

    Raises BadFile if there is no such file or it cannot be unpacked. A file without rows is a problem of its own.
    """
    rows: list[SourceRow] = []
    problems: list[Problem] = []
    for number, line in enumerate(read_unpacked(path).removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
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
