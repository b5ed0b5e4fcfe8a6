"""The door for personas: types and nested fields by pydantic, the flat table by pandera, each row with all its problems.

Nothing passes when any row is bad; whoever writes a file validates first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from components.personas.needs import stated_need
from components.personas.persona import Persona
from components.personas.reactions import REACTION_KEYS
from components.personas.rows import InvalidPersonas, Problem, Row, read_rows
from components.personas.table import table_problems

IMPORTED_REACTION_KEYS = frozenset({"high", "normal", "low", "serves", "misses", "text"})


def validate_file(path: Path) -> list[Persona]:
    """The personas of a JSONL file. Raises InvalidPersonas with every bad row, BadFile if the file cannot be read."""
    rows, problems = read_rows(path)
    return validate_rows(path.name, rows, problems)


def validate_rows(file: str, rows: Sequence[Row], problems: Sequence[Problem] = ()) -> list[Persona]:
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
    validate_rows(file, [Row(number, one.model_dump(mode="json")) for number, one in enumerate(personas, start=1)])


def _type_problems(file: str, row: Row, error: ValidationError) -> Iterator[Problem]:
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
    if any("{" in text for text in (persona.portrait, persona.background, *said, *persona.reactions.values())):
        yield "background", "a placeholder was left unfilled"
