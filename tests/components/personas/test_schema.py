"""The door for personas: every bad row is reported with line, field and reason, and one bad row stops all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa
import pytest

from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.domain.tables import table_faults
from rlver.components.personas.needs import WORDS
from rlver.components.personas.people import REACTION_KEYS
from rlver.components.personas.schema import (
    InvalidPersonas,
    PersonaTable,
    SourceRow,
    validate_file,
    validate_personas,
    validate_rows,
)

Split = tuple[list[Persona], list[Persona]]


def rows_of(personas: list[Persona]) -> list[dict[str, Any]]:
    return [one.model_dump(mode="json") for one in personas]


def problems_of(rows: list[dict[str, Any]], path: Path) -> list[tuple[int, str, str]]:
    write_jsonl(path, rows)
    with pytest.raises(InvalidPersonas) as raised:
        validate_file(path)
    assert {one.file for one in raised.value.problems} == {path.name}
    return [(one.line, one.field, one.reason) for one in raised.value.problems]


def test_generated_personas_pass_and_come_back_equal(personas: Split, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train.jsonl", rows_of(personas[0]))

    assert validate_file(tmp_path / "train.jsonl") == personas[0]


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("age", 15, "whole number of 16..90, got 15"),
        ("age", 91, "whole number of 16..90, got 91"),
        ("age", 30.5, "whole number of 16..90, got 30.5"),
        ("age", 30.0, "whole number of 16..90, got 30.0"),
        ("age", True, "whole number of 16..90, got True"),
        ("age", "30", "whole number of 16..90, got '30'"),
        ("hidden_need", "applause", "must be one of not_at_fault, "),
        ("persona_class", "sunny", "must be one of negative, passive, avoidant"),
        ("language", "fr", "must be one of en, zh"),
        ("split", "dev", "must be one of train, test"),
        ("source", "found", "must be one of generated, rlver"),
        ("style", "loud", "must be one of plain"),
        ("gender", "x", "must be one of f, m"),
        ("portrait", "short", "text of 40..4000 characters"),
        ("background", " " * 200, "text of 100..8000 characters"),
        ("background", "x" * 8001, "text of 100..8000 characters"),
        ("need_text", 7, "text of 8..400 characters, got 7"),
        ("persona_id", None, "is missing"),
        ("persona_id", "", "text of 1..80 characters"),
        ("persona_id", "two\nlines", "one line that can be printed"),
        ("persona_id", "red \x1b[31m", "one line that can be printed"),
        ("split", "test", "is not the one that persona_id names"),
        ("need_text", WORDS[HiddenNeed.USEFUL_ADVICE].need_text, "is the sentence of another need"),
        ("reactions", dict.fromkeys(REACTION_KEYS, " "), "text of 1..8000 characters"),
        ("traits", ["angry", "angry", "mean"], "three different words"),
        ("traits", ["angry", "mean"], "three different words"),
        ("traits", "angry, mean, lazy", "three different words"),
        ("first_line", "I just want you to listen to me.", "states the hidden need"),
        ("seed", -1, "whole number of 0.."),
        ("mood", "bad", "Extra inputs are not permitted"),
        ("story", {"topic": "x"}, "Field required"),
        ("reactions", {"S": "only one"}, "expected the keys S, A"),
        ("first_line", None, "a generated persona has one"),
        ("name", None, "a generated persona has one"),
    ],
)
def test_one_bad_field_is_reported_with_its_line(personas: Split, tmp_path: Path, field: str, value: Any, reason: str) -> None:
    rows = rows_of(personas[0][:3])
    rows[1][field] = value

    found = problems_of(rows, tmp_path / "train.jsonl")

    assert {line for line, _, _ in found} == {2}
    assert any(name.split(".")[0] == field and reason in text for _, name, text in found), found


def test_every_bad_row_is_reported_not_only_the_first(personas: Split, tmp_path: Path) -> None:
    rows = rows_of(personas[0][:6])
    rows[0]["age"] = 8
    rows[0]["gender"] = "x"
    rows[2]["hidden_need"] = "applause"
    rows[4]["language"] = 5

    found = problems_of(rows, tmp_path / "train.jsonl")

    assert [(line, field) for line, field, _ in found] == [(1, "age"), (1, "gender"), (3, "hidden_need"), (5, "language")]


def test_an_id_used_twice_is_reported_on_both_lines(personas: Split, tmp_path: Path) -> None:
    rows = rows_of(personas[0][:4])
    rows[3]["persona_id"] = rows[1]["persona_id"]

    found = problems_of(rows, tmp_path / "train.jsonl")

    assert [(line, field) for line, field, _ in found] == [(2, "persona_id"), (4, "persona_id")]
    assert all("used by more than one row" in reason for _, _, reason in found)


def test_traits_of_another_class_are_refused(personas: Split, tmp_path: Path) -> None:
    rows = rows_of(personas[0][:2])
    rows[0] |= {"persona_class": "avoidant", "traits": ["angry", "calm", "modest"]}

    assert problems_of(rows, tmp_path / "train.jsonl") == [(1, "traits", "are not all of the persona's class")]


@pytest.mark.parametrize("field", ["background", "first_line"])
def test_the_text_of_the_need_must_not_be_readable(personas: Split, tmp_path: Path, field: str) -> None:
    rows = rows_of(personas[0][:2])
    rows[1][field] += " " + rows[1]["need_text"]

    found = problems_of(rows, tmp_path / "train.jsonl")

    assert (2, field, "contains the text of the need") in found


def test_a_line_that_states_the_need_is_refused(personas: Split, tmp_path: Path) -> None:
    rows = rows_of(personas[0][:2])
    rows[0]["story"]["lines"][3] = "I just need some advice from you."

    assert [(line, field) for line, field, _ in problems_of(rows, tmp_path / "train.jsonl")] == [(1, "story.lines.3")]


@pytest.mark.parametrize(
    ("part", "value", "field", "reason"),
    [
        ("lines", [], "story.lines", "is empty"),
        ("lines", ["\u3000"], "story.lines.0", "must be text of 1..8000 characters"),
        ("lines", ["I waited. " * 10_000], "story.lines.0", "must be text of 1..8000 characters"),
        ("presses", ["Keep it.", ""], "story.presses.1", "must be text of 1..8000 characters"),
        ("presses", ["I just need some advice from you."], "story.presses.0", "states the hidden need (useful_advice)"),
        ("cause", "", "story.cause", "must be text of 1..8000 characters"),
    ],
)
def test_what_a_story_tells_is_text_and_keeps_the_need(personas: Split, part: str, value: Any, field: str, reason: str) -> None:
    row = personas[0][0].model_dump(mode="json") | {"kind": "danger", "persona_id": "en-danger-train-0001-a"}
    row["story"] |= {"presses": ["Keep it."]} | {part: value}
    with pytest.raises(InvalidPersonas) as raised:
        validate_rows("x.jsonl", [SourceRow(1, row)])
    assert [(one.field, one.reason) for one in raised.value.problems] == [(field, reason)]


def test_a_repeated_line_and_an_unfilled_placeholder_are_refused(personas: Split, tmp_path: Path) -> None:
    rows = rows_of(personas[0][:3])
    rows[2]["first_line"] = "{other} left me alone."
    rows[0]["story"]["lines"][3] = rows[0]["story"]["lines"][2]
    rows[1]["portrait"] += " {name} sings."

    assert problems_of(rows, tmp_path / "train.jsonl") == [
        (1, "story.lines", "the same line twice"),
        (2, "background", "a placeholder was left unfilled"),
        (3, "background", "a placeholder was left unfilled"),
    ]


def test_broken_lines_are_reported_beside_broken_rows(personas: Split, tmp_path: Path) -> None:
    good, bad, last = rows_of(personas[0][:3])
    bad["age"] = 3
    path = tmp_path / "train.jsonl"
    path.write_text(
        "\n".join([json.dumps(good), "{oops", json.dumps(bad), "[1]", "", json.dumps(last | {"age": float("nan")})]), encoding="utf-8"
    )

    with pytest.raises(InvalidPersonas) as raised:
        validate_file(path)

    assert [(one.line, one.field) for one in raised.value.problems] == [(2, "row"), (3, "age"), (4, "row"), (6, "row")]
    assert str(raised.value).startswith("4 bad row(s), 4 problem(s): train.jsonl:2: row: not valid JSON")
    assert "and 1 more" in str(raised.value) and "\n" not in str(raised.value)


def test_the_mark_that_windows_puts_before_a_file_is_no_part_of_it(persona: Persona, tmp_path: Path) -> None:
    file = tmp_path / "personas.jsonl"
    file.write_text(persona.model_dump_json() + "\n", "utf-8-sig")
    assert validate_file(file) == [persona]


def test_an_empty_file_is_not_a_valid_one(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text("\n", encoding="utf-8")

    with pytest.raises(InvalidPersonas, match="has no rows"):
        validate_file(tmp_path / "train.jsonl")


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no such file"):
        validate_file(tmp_path / "nowhere.jsonl")
    (tmp_path / "broken.jsonl.gz").write_bytes(b"\x1f\x8bnot really")
    with pytest.raises(BadFile, match="cannot be unpacked"):
        validate_file(tmp_path / "broken.jsonl.gz")


def test_bytes_that_are_no_text_are_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(b'{"a": "\xff"}\n')

    with pytest.raises(InvalidPersonas, match=r"train\.jsonl:1: row: not valid JSON"):
        validate_file(tmp_path / "train.jsonl")


def test_an_imported_persona_needs_its_source_record(persona: Persona) -> None:
    row = SourceRow(1, persona.model_dump(mode="json") | {"source": "rlver"})

    with pytest.raises(InvalidPersonas) as raised:
        validate_rows("x.jsonl", [row])
    assert {one.field for one in raised.value.problems} == {"original", "reactions"}


def test_personas_are_checked_before_they_are_written(persona: Persona) -> None:
    with pytest.raises(InvalidPersonas, match=r"test\.jsonl:2: persona_id"):
        validate_personas("test.jsonl", [persona, persona])


def test_the_table_has_every_flat_field_and_refuses_others(persona: Persona) -> None:
    columns = PersonaTable.to_schema().columns
    nested = {"reactions", "story", "original", "leaked", "kind"}
    assert set(columns) == set(Persona.model_fields) - nested
    assert table_faults(PersonaTable, [persona.model_dump(mode="json")]) == []

    frame = pd.DataFrame([{name: persona.model_dump(mode="json")[name] for name in columns}])
    frame = frame.astype({name: column.dtype.type for name, column in columns.items()})
    PersonaTable.validate(frame)
    with pytest.raises(pa.errors.SchemaErrors, match="mood"):
        PersonaTable.validate(frame.assign(mood="bad"), lazy=True)


def test_a_persona_of_a_kind_presses_and_no_other_does(persona: Persona) -> None:
    of_a_kind = persona.model_dump(mode="json") | {"kind": "danger", "persona_id": "en-danger-train-0001-a"}
    with pytest.raises(
        InvalidPersonas, match=r"story\.presses: a generated persona of a kind or of the sealed test has some, and no other has"
    ):
        validate_rows("x.jsonl", [SourceRow(1, of_a_kind)])
    with pytest.raises(InvalidPersonas, match=r"persona_id: that of a persona of a kind begins with en-KIND-"):
        validate_rows("x.jsonl", [SourceRow(1, of_a_kind | {"persona_id": "anna-1"})])
    with pytest.raises(InvalidPersonas, match="kind"):
        validate_rows("x.jsonl", [SourceRow(1, persona.model_dump(mode="json") | {"kind": "sunny"})])
