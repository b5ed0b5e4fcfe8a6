"""Curves: one row a step, also after a resume; CSV beside JSONL with the same rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from rlver.components.training.curves import CurveFile


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()]


def test_a_resumed_run_leaves_no_gap_and_no_double(tmp_path: Path) -> None:
    """An interrupted run got to step 7, its last checkpoint is of step 5."""
    curve = CurveFile(tmp_path / "logs" / "train")
    for step in range(1, 8):
        curve.record(step, {"emotion_mean": 10.0 * step})
    again = CurveFile(tmp_path / "logs" / "train")
    again.keep_until(5)
    for step in range(6, 10):
        again.record(step, {"emotion_mean": 20.0 * step})
    assert [row["step"] for row in rows(curve.path)] == list(range(1, 10))
    assert [row["emotion_mean"] for row in rows(curve.path)] == [10, 20, 30, 40, 50, 120, 140, 160, 180]


def test_a_fresh_start_drops_everything(tmp_path: Path) -> None:
    curve = CurveFile(tmp_path / "train")
    curve.record(0, {"a": 1.0})
    curve.keep_until(-1)
    assert rows(curve.path) == [] and curve.rows() == []
    CurveFile(tmp_path / "new").keep_until(-1)
    assert (tmp_path / "new.csv").is_file()


def test_a_step_recorded_twice_keeps_the_second(tmp_path: Path) -> None:
    curve = CurveFile(tmp_path / "train")
    curve.record(1, {"a": 1.0})
    curve.record(1, {"a": 2.0})
    assert rows(curve.path) == [{"step": 1, "a": 2.0}]


def test_the_csv_has_every_column_and_the_same_rows(tmp_path: Path) -> None:
    curve = CurveFile(tmp_path / "train")
    curve.record(1, {"a": 1.5})
    curve.record(2, {"a": 2.5, "b": 3.0})
    with (tmp_path / "train.csv").open() as file:
        assert list(csv.DictReader(file)) == [{"step": "1", "a": "1.5", "b": ""}, {"step": "2", "a": "2.5", "b": "3.0"}]


def test_not_a_number_is_written_as_nothing_so_that_every_reader_can_read_it(tmp_path: Path) -> None:
    curve = CurveFile(tmp_path / "train")
    curve.record(1, {"a": float("nan"), "b": 1.0, "c": float("inf")})
    assert rows(curve.path) == [{"step": 1, "a": None, "b": 1.0, "c": None}]
    assert (tmp_path / "train.csv").read_text() == "step,a,b,c\n1,,1.0,\n"
