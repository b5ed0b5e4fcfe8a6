"""Rows, words and the files beside the page."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_run import edit_json, load, make_dialogues, make_failed, write_benchmark, write_run, write_transcripts

from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.domain.transcript import Dialogue
from rlver.components.report import page as headline
from rlver.components.report import tables, wording
from rlver.components.report.page import all_tables
from rlver.components.report.panels.panel import ReportRun
from rlver.components.report.panels.results import published_table, results_table
from rlver.components.report.tables import NUMBER, Cell, Column, Table, as_csv, as_markdown
from rlver.components.scoring import intervals
from rlver.tasks.stages.report import panels_of_studies

RUN = ReportRun(seed=7, margin=0.05, model=None)


def test_the_csv_holds_full_precision_and_the_ends_of_every_interval(finished_run: Path):
    material = load(finished_run)
    rows = {row["policy"]: row for row in csv.DictReader(io.StringIO(as_csv(results_table(material))))}
    assert material.variants[1].sentient is not None
    metrics = material.variants[1].sentient
    ours = rows["grpo-think"]
    assert float(ours["emotion_mean"]) == metrics["emotion_mean"]
    assert (float(ours["difference_ci95_low"]), float(ours["difference_ci95_high"])) == intervals.from_json(
        metrics["paired_to_base"]["ci95"]
    )
    for quantity in ("turns", "reply_tokens"):
        assert tuple(float(ours[f"{quantity}_ci95_{end}"]) for end in ("low", "high")) == intervals.from_json(metrics[f"{quantity}_ci95"])
    assert (ours["n"], ours["failed"]) == ("21", "1")
    assert rows["base"]["difference"] == rows["base"]["difference_ci95_low"] == ""


def test_published_rows_stand_apart_and_have_no_interval():
    text = as_csv(published_table())
    (published,) = (row for row in csv.DictReader(io.StringIO(text)) if row["policy"] == "PPO, think")
    assert (published["emotion_mean"], published["success_rate"], published["failure_rate"]) == ("79.2", "0.42", "0.09")
    assert published["emotion_ci95_low"] == ""
    assert "no CI was published" in as_markdown(published_table())


def test_the_markdown_has_every_table_with_its_intervals(finished_run: Path):
    written = all_tables(load(finished_run), RUN, panels_of_studies())
    text = "\n".join(as_markdown(table) for table in written)
    assert "| Qwen2.5-7B-Instruct (base) | 13.3 | 2% | 76% |" in text
    assert "| grpo-think | pass |" in text
    assert len({table.name for table in written}) == len(written) > 7
    assert re.search(r"\| grpo-think \| \d+\.\d \(\d+\.\d to \d+\.\d\) \|", text)


def test_a_bar_in_a_cell_stays_in_its_cell():
    table = Table("t", "T", (Column("a", "A"), Column("b", "B", NUMBER, "b_ci95")), ((Cell("x|y"), Cell(1.25, (1.0, 1.5))),))
    assert "| x\\|y | 1.2 (1.0 to 1.5) |" in as_markdown(table)
    assert as_csv(table) == "a,b,b_ci95_low,b_ci95_high\nx|y,1.25,1.0,1.5\n"


def test_ability_is_compared_with_the_margin_of_the_settings(finished_run: Path):
    material = load(finished_run)
    (loose,) = tables.capability_tables(material, 0.05)
    (strict,) = tables.capability_tables(material, 0.0001)
    assert loose.outcome == "pass"
    assert strict.outcome != "pass"
    assert loose.rows["rlver_tiny_likelihood"]["difference"] == pytest.approx(-0.002)  # 0.002 more bits per byte are a loss


def test_benchmarks_that_cannot_be_compared_say_why(tmp_path: Path):
    write_run(tmp_path, personas=8)
    (tmp_path / "metrics" / "base" / "general.json").unlink()
    (table,) = tables.capability_tables(load(tmp_path), 0.05)
    assert table.problem is not None and "base was not benchmarked" in table.problem
    assert "not compared: the base was not benchmarked" in "".join(
        as_markdown(one) for one in all_tables(load(tmp_path), RUN, panels_of_studies())
    )
    edit_json(tmp_path / "metrics" / "grpo-think" / "general.json", tasks={})
    write_benchmark(tmp_path, "base", 0.0, 1)
    (table,) = tables.capability_tables(load(tmp_path), 0.05)
    assert table.problem == "base and tuned have no benchmark task in common"


def test_a_benchmark_file_of_another_shape_is_one_readable_error(tmp_path: Path):
    write_run(tmp_path, personas=8)
    edit_json(tmp_path / "metrics" / "base" / "general.json", tasks={"rlver_tiny_choice": {}})
    with pytest.raises(BadFile, match=r"general\.json.*metric.*run benchmark again"):
        tables.capability_tables(load(tmp_path), 0.05)


def test_a_gain_is_called_a_gain_only_when_its_interval_excludes_zero(tmp_path: Path):
    base = make_dialogues("base", 8, 0.5, 1)
    write_transcripts(tmp_path, "base", base, None)
    assert headline.headline(load(tmp_path)).sentence == "No trained policy has been scored yet."
    for ends, expected in (([2.0, 9.0], "5.0 points above"), ([-9.0, -2.0], "5.0 points below"), ([-1.0, 9.0], "do not show a difference")):
        write_transcripts(tmp_path, "tuned", make_dialogues("tuned", 8, 0.6, 2), base)
        sign = -1 if ends[1] < 0 else 1
        edit_json(tmp_path / "metrics" / "tuned" / "sentient.json", paired_to_base={"difference": sign * 5.0, "ci95": ends})
        assert expected in headline.headline(load(tmp_path)).sentence


def test_a_score_that_the_audit_doubts_is_not_told_without_the_doubt(tmp_path: Path):
    write_transcripts(tmp_path, "base", base := make_dialogues("base", 8, 0.5, 1), None)
    write_transcripts(tmp_path, "tuned", make_dialogues("tuned", 8, 0.6, 2), base)
    for outcome, told in (("alarm", True), ("ok", False)):
        material = load(tmp_path)
        tuned = next(one for one in material.variants if one.name == "tuned")
        tuned.metrics["audit"] = {"checks": [{"name": "copying", "outcome": outcome}]}
        assert ("The audit is in alarm (copying)" in headline.headline(material).sentence) is told


def test_a_gain_over_a_base_that_was_cut_short_says_so(tmp_path: Path):
    write_transcripts(tmp_path, "base", base := make_dialogues("base", 8, 0.5, 1), None)
    write_transcripts(tmp_path, "tuned", make_dialogues("tuned", 8, 0.6, 2), base)
    for cut_short in (True, False):
        (tmp_path / "metrics" / "base" / "warm_start.json").write_text(json.dumps({"cut_short": cut_short}))
        assert ("The base was cut short" in headline.headline(load(tmp_path)).sentence) is cut_short


def test_the_gain_of_the_highest_of_several_is_called_that(tmp_path: Path):
    write_transcripts(tmp_path, "base", base := make_dialogues("base", 8, 0.5, 1), None)
    write_transcripts(tmp_path, "tuned", make_dialogues("tuned", 8, 0.9, 2), base)
    assert "With tuned, users end" in headline.headline(load(tmp_path)).sentence
    write_transcripts(tmp_path, "other", make_dialogues("other", 8, 0.6, 2), base)
    assert "With tuned, the best of 2, users end" in headline.headline(load(tmp_path)).sentence
    write_transcripts(tmp_path, "other", make_dialogues("other", 5, 0.6, 2), base)
    assert "With tuned, users end" in headline.headline(load(tmp_path)).sentence, "the other one met fewer people"


@pytest.mark.parametrize(
    "changes",
    [
        {"simulator": {"kind": "scripted", "difficulty": "challenging", "version": "scripted-1"}},
        {"persona_id": "en-sealed-0001-0a1b2c3d4e"},
        {"persona_id": "p001"},  # of the same set
    ],
)
def test_policies_on_several_scales_are_not_ranked(tmp_path: Path, changes: dict[str, Any]):
    for name, skill in (("a", 0.5), ("b", 0.9)):
        held = make_dialogues(name, 8, skill, 2)
        write_transcripts(tmp_path, name, [*held[:7], make_failed(name, 7)] if name == "b" else held, None)
    material = load(tmp_path)
    first, second = material.variants
    assert headline.headline(material).title == "2 policies, one scale", "one failure ends no ranking"
    assert "same kind of simulated user" in headline.page(material, RUN, {})
    others = tuple(Dialogue.model_validate(one.model_dump() | changes) for one in second.dialogues)
    material = replace(material, variants=(first, replace(second, dialogues=others)))
    told = headline.headline(material)
    assert told.title == "2 policies, several scales" and "highest mean" not in told.sentence
    assert ("same kind of simulated user" in headline.page(material, RUN, {})) is ("simulator" not in changes)


def test_without_scores_or_without_a_base_the_headline_still_reads(tmp_path: Path):
    write_transcripts(tmp_path, "tuned", make_dialogues("tuned", 8, 0.6, 2), None)
    assert "no scored base" in headline.headline(load(tmp_path)).sentence
    (tmp_path / "metrics" / "tuned" / "sentient.json").unlink()
    assert "Nothing has been scored" in headline.headline(load(tmp_path)).sentence


def test_one_policy_with_a_score_is_neither_the_highest_nor_the_lowest(tmp_path: Path):
    write_transcripts(tmp_path, "good", make_dialogues("good", 8, 0.6, 2), None)
    write_jsonl(tmp_path / "transcripts" / "lost.jsonl", [make_failed("lost", number).model_dump(mode="json") for number in range(8)])
    told = headline.headline(load(tmp_path))
    assert told.title.startswith("good scores") and "no scored base" in told.sentence and "lowest" not in told.sentence


def test_a_remark_stands_beside_the_interval_and_not_in_its_place():
    table = Table("t", "T", (Column("a", "A"), Column("b", "B", NUMBER, "b_ci95")), ((Cell("x"), Cell(1.25, (1.0, 1.5), "1 unscorable")),))
    assert table.lines()[0][1].small == "1.0 to 1.5; 1 unscorable" and "1.2 (1.0 to 1.5; 1 unscorable)" in as_markdown(table)


def test_numbers_read_well():
    assert wording.number(-0.04) == "0.0"
    assert wording.number(-1.25, 2) == "\u22121.25"
    assert wording.number(None) == wording.percent(None) == wording.signed(None) == "–"
    assert [wording.signed(value) for value in (3.0, 0.0, -0.01, -3.0)] == ["+3.0", "0.0", "0.0", "\u22123.0"]
    assert wording.percent_interval((0.0, 0.0357)) == "0 to 4%"
    assert wording.interval(None) == wording.signed_interval(None) == wording.percent_interval(None) == ""
    assert wording.readable("trait:suspicious") == "Trait: suspicious"
    assert wording.readable(None) == "Unknown"
