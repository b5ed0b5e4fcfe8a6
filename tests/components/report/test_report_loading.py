"""What a report reads, and what it refuses to read."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from report_run import edit_json, load, make_dialogues, write_run, write_transcripts

from rlver.components.domain.files import BadFile
from rlver.components.report import curves
from rlver.components.report.material import COLUMNS, load_material, read_curve


def test_variants_are_found_by_their_transcripts_with_the_base_first(tmp_path: Path):
    material = load(write_run(tmp_path, personas=8, trained=("a-name-before-base", "z")))
    assert [variant.name for variant in material.variants] == ["base", "a-name-before-base", "z"]
    assert material.base is material.variants[0]
    assert material.base.training is None and material.base.held_out is None


def test_a_pipeline_may_call_its_base_otherwise(tmp_path: Path):
    root = write_run(tmp_path, personas=8, trained=("raw", "a-name-before-it"))
    (root / "transcripts" / "base.jsonl").unlink()
    material = load_material(root / "transcripts", root / "metrics", root / "logs", base="raw")
    assert [(variant.name, variant.is_base) for variant in material.variants] == [("raw", True), ("a-name-before-it", False)]
    assert material.featured is material.variants[1]


def test_the_featured_variant_is_the_one_with_the_highest_score_not_the_first(tmp_path: Path):
    base = make_dialogues("base", 8, 0.1, 1)
    write_transcripts(tmp_path, "base", base, None)
    write_transcripts(tmp_path, "a", make_dialogues("a", 8, 0.2, 1), base)
    write_transcripts(tmp_path, "b", make_dialogues("b", 8, 0.9, 1), base)
    featured = load(tmp_path).featured
    assert featured is not None and featured.name == "b"


def test_a_folder_without_transcripts_is_an_error(tmp_path: Path):
    with pytest.raises(BadFile, match="no transcripts"):
        load(tmp_path)


def test_metrics_of_other_transcripts_are_refused(tmp_path: Path):
    write_run(tmp_path, personas=8)
    edit_json(tmp_path / "metrics" / "base" / "sentient.json", emotion_mean=99.0)
    with pytest.raises(BadFile, match=r"mean emotion 99\.00.*run score again"):
        load(tmp_path)


def test_metrics_with_another_number_of_dialogues_are_refused(tmp_path: Path):
    write_run(tmp_path, personas=8)
    edit_json(tmp_path / "metrics" / "grpo-think" / "sentient.json", n=3)
    with pytest.raises(BadFile, match="says 3 dialogues"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected a JSON object"),
        ('{"n": 8}', "lacks n and emotion_mean"),
        ('{"n": 8, "emotion_mean": null}', "lacks"),
    ],
)
def test_a_broken_metrics_file_is_one_readable_error(tmp_path: Path, text: str, reason: str):
    write_run(tmp_path, personas=8)
    (tmp_path / "metrics" / "base" / "sentient.json").write_text(text)
    with pytest.raises(BadFile, match=reason):
        load(tmp_path)


def test_a_step_logged_twice_counts_once_and_the_later_row_wins(tmp_path: Path):
    path = tmp_path / "train.csv"
    path.write_text("step,emotion_mean,kl,note\n1,10,,x\n2,20,,x\n2,25,0.5,x\n")
    curve = read_curve(path)
    assert curve is not None
    assert curve.steps == (1.0, 2.0)
    assert curve.columns["emotion_mean"] == (10.0, 25.0)
    assert math.isnan(curve.columns["kl"][0]) and curve.columns["kl"][1] == 0.5
    assert "entropy" not in curve.columns and "note" not in curve.columns


def test_every_curve_that_is_drawn_is_read():
    assert {name for name, _ in curves._PANELS} <= set(COLUMNS)


def test_a_log_without_rows_is_no_curve(tmp_path: Path):
    path = tmp_path / "train.csv"
    path.write_text("step,emotion_mean\n")
    assert read_curve(path) is None


@pytest.mark.parametrize("row", ["x,10", "1,ten", ",3"])
def test_a_log_with_something_else_than_numbers_is_an_error_with_its_line(tmp_path: Path, row: str):
    path = tmp_path / "train.csv"
    path.write_text(f"step,emotion_mean\n0,9\n{row}\n")
    with pytest.raises(BadFile, match=r"train\.csv:3"):
        read_curve(path)
