"""Figures draw what is there, and nothing where nothing is."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from report_run import load, make_dialogues, make_failed, write_run, write_transcripts

from rlver.components.domain.transcript import StopReason
from rlver.components.report import curves, ink
from rlver.components.report import curves as trajectories
from rlver.components.report.material import Material, Variant
from rlver.components.report.page import FIGURES, asset
from rlver.components.report.panels.course import course_curves, course_table
from rlver.components.scoring.sentient import sentient_metrics
from rlver.components.scoring.units import Sampling

DICHROMATS = tuple(
    np.array(rows)
    for rows in (
        ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
        ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
        ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
    )
)


def distance(a: str, b: str, seen: np.ndarray) -> float:
    """Between two sRGB colours in CIELAB (D65), as somebody sees them whose eyes mix linear light by `seen`."""
    return float(np.linalg.norm(lab(a, seen) - lab(b, seen)))


def lab(colour: str, seen: np.ndarray) -> np.ndarray:
    encoded = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    light = np.clip(seen @ np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4), 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ light / np.array([0.9505, 1, 1.089])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_every_figure_is_drawn_under_its_own_name(finished_run: Path):
    material = load(finished_run)
    kept = {name for name in FIGURES if name.endswith("-over-training")}  # need held-out dialogues: test_report_over_training.py
    assert len(kept) == 4
    for name in FIGURES.keys() - kept:
        drawn = FIGURES[name](material)
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
    only_failed = Material((type(variant)("base", True, (failed,), {}, None, None),), {})
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


def test_names_at_the_ends_of_curves_keep_their_distance_and_stay_in_the_figure():
    assert curves.apart([20.0, 50.0]) == [20.0, 50.0]
    assert curves.apart([70.0, 71.0, 80.0]) == [70.0, 76.0, 82.0]
    assert curves.apart([97.0, 98.0, 99.0]) == [88.0, 94.0, 100.0]  # 97, 103, 109, then pushed down from 100
    assert curves.apart([]) == []


def test_the_base_alone_is_grey_and_later_rounds_of_colour_are_dashed():
    styles = [ink.series_style(position) for position in range(16)]
    assert [style["color"] for style in styles].count(ink.SERIES[0]) == 1
    assert len({(style["color"], str(style["linestyle"])) for style in styles}) == 16


def test_colours_are_told_apart_by_the_colour_blind():
    """Every two colours of variants, on the light and on the dark page, seen by all kinds of dichromats (Machado, Oliveira, Fernandes 2009)."""
    style = asset("style.css")
    light, dark = (re.findall(r"--series-\d: (#\w{6})", part) for part in style.split("prefers-color-scheme: dark"))
    assert tuple(light) == ink.SERIES and len(dark) == len(light)
    for colours in (light, dark):
        for seen in DICHROMATS:
            assert min(distance(a, b, seen) for a, b in itertools.combinations(colours, 2)) > 15  # in CIELAB; 2.3 is just noticeable


def test_an_svg_takes_the_pages_colours_keeps_its_ids_to_itself_and_scales(finished_run: Path):
    drawn = FIGURES["need-bars"](load(finished_run))
    assert drawn is not None
    text = ink.svg(drawn.figure, drawn.name, 'said "aloud" & <clear>')
    assert text.startswith('<svg id="need-bars" role="img" aria-label="said &quot;aloud&quot; &amp; &lt;clear&gt;"')
    assert "var(--series-1, #154084)" in text and "var(--ink, #1b222c)" in text
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


def test_how_soon_is_told_of_all_dialogues_and_a_cap_after_the_last_turn_has_the_last_share(dialogue) -> None:
    left = dialogue("b", [1] * 7).model_copy(update={"stop_reason": StopReason.GOODBYE})  # by its user, not by a limit of 7 turns
    done = [dialogue("a", [10] * 6), left, dialogue("c", [-10] * 4), dialogue("d", [10] * 6)]
    variant = Variant("fast", False, tuple(done), {"sentient": sentient_metrics(done, None, Sampling(200, 7))}, None, None)
    table = course_table(Material((variant,), {}))
    assert table is not None
    cells = {column.key: cell.value for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert (cells["succeeded_by_6"], cells["failed_by_6"], cells["succeeded_by_10"]) == (0.5, 0.25, 0.5)
    assert cells["emotion_by_6"] == pytest.approx((100 + 46 + 0 + 100) / 4) and cells["emotion_gated"] is None, "no policy thinks here"
    assert course_table(Material((Variant("old", False, (), {"sentient": {}}, None, None),), {})) is None


def test_a_line_ends_where_the_limit_ended_the_dialogues_and_goes_on_where_they_ended_by_themselves(dialogue) -> None:
    long = [dialogue("a", [1] * 9), dialogue("b", [10] * 6)]
    short = [dialogue("a", [1] * 6), dialogue("b", [10] * 6)]
    ended = [one.model_copy(update={"stop_reason": StopReason.GOODBYE}) for one in short]
    variants = (
        Variant(name, False, tuple(held), {"sentient": sentient_metrics(held, None, Sampling(200, 7))}, None, None)
        for name, held in (("long", long), ("cut", short), ("ended", ended))
    )
    drawn = course_curves(Material(tuple(variants), {}))
    assert drawn is not None
    assert [[line.get_xdata()[-1] for line in axes.lines] for axes in drawn.figure.axes] == [[9, 6, 9]] * 2
