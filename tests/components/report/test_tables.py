"""Tables that enter from files: typed columns, and every bad cell at once, with line, column and value."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pandera.pandas as pa
import pytest

from rlver.components.ability.noninferiority import ItemTable, items_file, read_general, write_general
from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.domain.tables import BLANK, MISSING, table_faults
from rlver.components.personas.schema import PersonaTable
from rlver.components.report.material import CurveTable, read_curve
from rlver.components.rollout.dialogue_table import DialogueTable
from rlver.components.rollout.transcripts import BadTranscripts, load_transcripts


@pytest.mark.parametrize(
    ("model", "types"),
    [
        (PersonaTable, {"age": "Int64", "seed": "Int64", "persona_id": "string", "traits": "object"}),
        (CurveTable, {"step": "Float64", "kl": "Float64"}),
        (ItemTable, {"doc": "string", "score": "Float64"}),
        (DialogueTable, {"emotion_final": "Int64", "stop_reason": "string"}),
    ],
)
def test_columns_have_the_types_of_what_they_hold(model: type[pa.DataFrameModel], types: dict[str, str]) -> None:
    columns = {name: str(column.dtype).split("[")[0] for name, column in model.to_schema().columns.items()}
    assert types.items() <= columns.items()
    assert {name for name, dtype in columns.items() if dtype == "object"} <= {"traits"}


def test_blank_is_what_python_calls_blank() -> None:
    characters = "".join(map(chr, range(0x10000)))
    assert re.findall(f"[{BLANK}]", characters) == [one for one in characters if one.isspace()]
    blank = [fault for fault in table_faults(PersonaTable, [{"need_text": "\u3000" * 8}]) if fault.column == "need_text"]
    assert blank == [(0, "need_text", f"must be text of 8..400 characters, got {chr(0x3000) * 8!r}")]


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 30.0, True, "half \ud800 of a character"])
def test_a_value_that_its_column_cannot_hold_is_a_fault_and_no_crash(value: object) -> None:
    faults = table_faults(PersonaTable, [{"seed": value, "topic": "work"}, {"seed": 1, "topic": value}])
    assert {(row, column) for row, column, reason in faults if reason != MISSING} == {(0, "seed"), (1, "topic")}


@pytest.mark.parametrize("sign", [1, -1])
def test_a_whole_number_beyond_a_float_is_a_fault_of_a_column_of_floats(sign: int) -> None:
    """JSON may say a whole number of 400 digits, which is no infinity and fits no float."""
    most = int(sys.float_info.max)
    faults = table_faults(CurveTable, [{"step": 1, "kl": sign * 10**400}, {"step": 2, "kl": sign * most}])
    assert [(fault.row, fault.column) for fault in faults] == [(0, "kl")] and faults[0].reason.startswith("must be a number, got ")


@pytest.mark.parametrize("name", ["train.csv", "evaluation.csv"])
def test_every_bad_cell_of_a_curve_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("step,emotion_mean,success_rate,kl,note\n1,40,0.5,,x\n2,ten,1.5,,x\n,50,0.5,inf,x\n")
    with pytest.raises(BadFile) as caught:
        read_curve(path)
    assert str(caught.value) == (
        f"{path}:3: emotion_mean: must be a number of 0..100, got 'ten'; {path}:3: success_rate: must be a number of 0..1, got 1.5; "
        f"{path}:4: kl: must be a number, got inf; and 1 more"
    )


def test_a_curve_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_bytes(b"step,kl\n1,\xff\n")
    with pytest.raises(BadFile, match=r"train\.csv:\d+: not a table in UTF-8"):
        read_curve(path)


def test_every_bad_score_of_a_benchmark_is_named(tmp_path: Path) -> None:
    path = tmp_path / "general.json"
    write_general(path, {"tasks": {"t": {"items": []}}})
    good = {"task": "t", "doc": "d", "prompt": "p", "score": 1.0}
    items = [good, {**good, "score": "1.0"}, {**good, "score": True}, {**good, "score": float("nan")}, {**good, "doc": None}]
    write_jsonl(items_file(path), items)
    with pytest.raises(BadFile) as caught:
        read_general(path)
    at = items_file(path)
    assert str(caught.value) == (
        f"{at}:2: score: must be a number, got '1.0'; {at}:3: score: must be a number, got True; "
        f"{at}:4: score: must be a number, got nan; and 1 more; run benchmark again"
    )


def test_a_transcript_file_that_is_refused_has_all_its_bad_cells_named(tmp_path: Path, dialogue) -> None:
    good = [dialogue(name, [1] * 10).model_dump(mode="json") for name in "abcd"]
    bad = [good[0], {**good[1], "emotion_final": 101}, {**good[2], "seed": "seven"}, {**good[3], "stop_reason": "tired"}]
    path = tmp_path / "t.jsonl"
    write_jsonl(path, bad)
    with pytest.raises(BadFile) as caught:
        load_transcripts(path, EmotionRules())
    first, rest = str(caught.value).split("; in all: ")
    assert first.startswith(f"{path}:2: not a dialogue: emotion_final: ") and first.endswith(", got 101")
    assert rest.startswith(f"{path}:2: emotion_final: must be a whole number of 0..100, got 101; {path}:3: seed: ")
    assert "got 'seven'" in rest and f"{path}:4: stop_reason: must be one of " in rest and rest.endswith("got 'tired'") and "\n" not in rest


def _spoilt(path: Path, dialogue) -> None:
    """Lines 2 to 8 are bad, each in a way of its own; what is wrong with line 2 hides nothing of the others."""
    rows = [dialogue(name, [1] * 10).model_dump(mode="json") for name in "abcdefghi"]
    rows[1]["seed"] = None
    rows[2]["turns"][3]["emotion"] = "high"
    rows[3]["turns"][3]["emotion"] = 77
    rows[4]["mood"] = "odd"
    rows[5]["emotion_start"] = 30
    rows[6] = rows[0]
    lines = [json.dumps(row) for row in rows]
    lines[7] = "{oops"
    path.write_text("\n".join(lines) + "\n")


def test_every_bad_line_has_its_columns_and_values_however_it_is_bad(tmp_path: Path, dialogue) -> None:
    path = tmp_path / "t.jsonl"
    _spoilt(path, dialogue)
    with pytest.raises(BadTranscripts) as caught:
        load_transcripts(path, EmotionRules())
    told = {(one.line, one.column): one.reason for one in caught.value.problems}
    assert [line for line, _ in told] == [2, 3, 4, 5, 6, 7, 8]
    assert told[3, "turns.3.emotion"].endswith("got 'high'") and told[5, "mood"].endswith("got 'odd'") and told[2, "seed"] == "is missing"
    assert "gives 44, got 77" in told[4, ""] and "was on line 1 already" in told[7, ""] and told[8, ""].startswith("not valid JSON")
    assert str(caught.value).endswith("; and 4 more on lines 5-8") and "\n" not in str(caught.value)


def test_without_pandera_the_same_cells_are_named(tmp_path: Path, dialogue, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.jsonl"
    _spoilt(path, dialogue)
    with pytest.raises(BadTranscripts) as with_it:
        load_transcripts(path)
    monkeypatch.delitem(sys.modules, "rlver.components.rollout.dialogue_table", raising=False)
    for name in ("pandas", "pandera"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BadTranscripts) as without:
        load_transcripts(path)
    assert [one[:2] for one in without.value.problems] == [one[:2] for one in with_it.value.problems]
    assert without.value.problems != with_it.value.problems


def test_a_single_problem_is_said_once(tmp_path: Path, dialogue) -> None:
    path = tmp_path / "t.jsonl"
    (row,) = [dialogue("a", [1] * 10).model_dump(mode="json")]
    row["turns"][3]["emotion"] = 77
    write_jsonl(path, [row])
    with pytest.raises(BadTranscripts, match=r"t\.jsonl:1: dialogue a/0: turn 4: emotion 43 with change \+1 gives 44, got 77$"):
        load_transcripts(path)


def test_reading_dialogues_needs_no_pandera() -> None:
    code = "import sys, rlver.components.rollout.transcripts as _; print({'pandas', 'pandera', 'numpy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
