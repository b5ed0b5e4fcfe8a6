"""Figures draw what is there, and nothing where nothing is."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from report_run import make_dialogues, make_failed, write_run, write_transcripts

from components.evaluation.report import curves, ink, trajectories
from components.evaluation.report.figures import FIGURES
from components.evaluation.report.loading import Material, load_material


def load(root: Path) -> Material:
    return load_material(root / "transcripts", root / "metrics", root / "logs")


def test_every_figure_is_drawn_under_its_own_name(finished_run: Path):
    material = load(finished_run)
    for name, draw in FIGURES.items():
        drawn = draw(material)
        assert drawn is not None and drawn.name == name


def test_without_logs_and_scores_only_the_trajectories_are_drawn(tmp_path: Path):
    write_transcripts(tmp_path, "base", make_dialogues("base", 8, 0.5, 1), None)
    (tmp_path / "metrics" / "base" / "sentient.json").unlink()
    material = load(tmp_path)
    assert [name for name, draw in FIGURES.items() if draw(material) is not None] == ["trajectories"]


def test_a_run_in_which_every_dialogue_failed_has_no_trajectories(tmp_path: Path):
    write_run(tmp_path, personas=8)
    failed = load(tmp_path).variants[1].dialogues[-1]
    variant = load(tmp_path).variants[0]
    only_failed = Material((type(variant)("base", (failed,), None, None, None, None),))
    assert failed == make_failed("grpo-think", 8)
    assert trajectories.trajectories(only_failed) is None


def test_a_held_out_curve_alone_is_enough(tmp_path: Path):
    write_run(tmp_path, personas=8)
    (tmp_path / "logs" / "grpo-think" / "train.csv").unlink()
    material = load(tmp_path)
    assert curves.learning_curve(material) is not None
    assert curves.training_health(material) is None


def test_the_running_mean_is_centred_and_passes_over_gaps():
    # windows of five: (1+2+6)/3, (1+2+6+3)/4, (1+2+6+3)/4 with the gap left out, NaN, ...
    means = curves._running_mean([1.0, 2.0, 6.0, 3.0, math.nan])
    assert means[:4] == [3.0, 3.0, 3.0, pytest.approx(11 / 3)]
    assert math.isnan(means[4])


def test_the_base_alone_is_grey_and_later_rounds_of_colour_are_dashed():
    styles = [ink.series_style(position) for position in range(16)]
    assert [style["color"] for style in styles].count(ink.SERIES[0]) == 1
    assert len({(style["color"], str(style["linestyle"])) for style in styles}) == 16


def test_an_svg_takes_the_pages_colours_keeps_its_ids_to_itself_and_scales(finished_run: Path):
    drawn = FIGURES["need-bars"](load(finished_run))
    assert drawn is not None
    text = ink.svg(drawn.figure, drawn.name, 'said "aloud" & <clear>')
    assert text.startswith('<svg id="need-bars" role="img" aria-label="said &quot;aloud&quot; &amp; &lt;clear&gt;"')
    assert "var(--series-1, #1f6f79)" in text and "var(--ink, #1b222c)" in text
    assert re.findall(r'\bid="(?!need-bars)', text) == []
    assert set(re.findall(r'(?:href="|url\()#([\w-]+)', text)) <= set(re.findall(r'\bid="([\w-]+)"', text))
    assert 'width="' not in text.split(">")[0] and "viewBox" in text
    assert "<text" in text and "Deep empathy" in text


def test_a_variant_name_is_text_even_if_it_looks_like_a_formula(tmp_path: Path):
    base = make_dialogues("base", 8, 0.5, 1)
    write_transcripts(tmp_path, "base", base, None)
    write_transcripts(tmp_path, "a$_b$", make_dialogues("a", 8, 0.5, 2), base)
    drawn = FIGURES["need-map"](load(tmp_path))
    assert drawn is not None and "a$_b$" in ink.svg(drawn.figure, drawn.name, "")


def test_the_png_is_a_png(finished_run: Path):
    drawn = FIGURES["trajectories"](load(finished_run))
    assert drawn is not None and ink.png(drawn.figure).startswith(b"\x89PNG")
