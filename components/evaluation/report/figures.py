"""The figures of a report, each a function of the material; None when there is nothing to draw.

Colours go by the position of the variant (base first), so a variant looks the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from components.dialogue.transcript import Dialogue
from components.evaluation.report import ink, tables
from components.evaluation.report.loading import Curve, Material
from components.evaluation.report.wording import readable
from components.evaluation.sentient import FAILURE, SUCCESS

WIDTH = 10.4  # inches; the page shows a figure as wide as its text
_LINES_SHOWN = 60  # single dialogues behind a median
_SMOOTHED_STEPS = 5
_CURVE_PANELS = (
    ("success_rate", "Success rate"),
    ("failure_rate", "Failure rate"),
    ("right_act_rate", "Right act after a cue"),
    ("reply_tokens", "Tokens per reply"),
    ("entropy", "Entropy"),
    ("kl", "KL to the base"),
    ("grad_norm", "Gradient norm"),
)  # fmt: skip


class Drawn(NamedTuple):
    """A finished figure, its file name, and what a reader who cannot see it is told."""

    name: str
    figure: Figure
    description: str


FIGURES: dict[str, Callable[[Material], Drawn | None]] = {}


def _figure(draw: Callable[[Material], Drawn | None]) -> Callable[[Material], Drawn | None]:
    FIGURES[draw.__name__.replace("_", "-")] = draw
    return draw


@_figure
def learning_curve(material: Material) -> Drawn | None:
    """Mean final emotion over training steps: each step pale, a centred running mean bold, held-out personas as dots."""
    curves = [(i, v.name, v.training, v.held_out) for i, v in enumerate(material.variants) if v.training or v.held_out]
    if not curves:
        return None
    with ink.drawing(WIDTH, 3.5) as figure:
        axes = figure.subplots()
        for position, name, training, held_out in curves:
            style = ink.series_style(position)
            if training and "emotion_mean" in training.columns:
                values = training.columns["emotion_mean"]
                axes.plot(training.steps, values, **style, linewidth=0.8, alpha=0.35)
                axes.plot(training.steps, _running_mean(values), **style, linewidth=1.8, label=f"{name}, training personas")
            if held_out and "emotion_mean" in held_out.columns:
                axes.plot(
                    held_out.steps, held_out.columns["emotion_mean"], color=style["color"], linestyle=":", linewidth=1, marker="o",
                    markersize=4.5, label=f"{name}, held-out personas",
                )  # fmt: skip
        _emotion_axis(axes, "Mean final emotion")
        axes.set_xlabel("Training step")
        axes.legend(loc="upper left", bbox_to_anchor=(0, 1.14), ncols=4, borderaxespad=0, handlelength=1.8)
    return Drawn("learning-curve", figure, "Mean final emotion over training steps, on training and on held-out personas")


@_figure
def training_health(material: Material) -> Drawn | None:
    """Small panels of everything else that was logged."""
    curves = [(i, v.training) for i, v in enumerate(material.variants) if v.training]
    panels = [(key, title) for key, title in _CURVE_PANELS if any(key in curve.columns for _, curve in curves)]
    if not panels:
        return None
    columns = 4
    rows = math.ceil(len(panels) / columns)
    with ink.drawing(WIDTH, 1.75 * rows) as figure:
        grid = figure.subplots(rows, columns, squeeze=False).flat
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        for axes, (key, title) in zip(grid[: len(panels)], panels, strict=True):
            _small_panel(axes, key, title, curves)
    return Drawn("training-health", figure, "Success, failure, right acts, reply length and the optimiser's figures over training steps")


def _small_panel(axes: Axes, key: str, title: str, curves: Sequence[tuple[int, Curve]]) -> None:
    for position, curve in curves:
        if key in curve.columns:
            style = ink.series_style(position)
            axes.plot(curve.steps, curve.columns[key], **style, linewidth=0.7, alpha=0.35)
            axes.plot(curve.steps, _running_mean(curve.columns[key]), **style, linewidth=1.4)
    axes.set_title(title, fontsize=8.5)
    axes.locator_params(axis="both", nbins=4)
    ink.without_grid(axes, "x")
    if key.endswith("_rate"):
        axes.set_ylim(0, 1.02)
        axes.set_yticks([0, 0.5, 1], ["0", "50%", "100%"])


@_figure
def trajectories(material: Material) -> Drawn | None:
    """The emotion over turns, one panel a variant. A dialogue that has ended keeps its last value, or only the unhappy would remain."""
    paths = [_paths(variant.dialogues) for variant in material.variants]
    turns = max((len(path) for variant in paths for path in variant), default=1) - 1
    if turns < 1:
        return None
    columns = min(4, max(2, len(paths)))
    rows = math.ceil(len(paths) / columns)
    with ink.drawing(WIDTH, (3.1 if columns == 2 else 2.3) * rows) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat
        for axes in grid[len(paths) :]:
            axes.set_axis_off()
        for position, (axes, variant) in enumerate(zip(grid[: len(paths)], material.variants, strict=True)):
            _trajectory_panel(axes, ink.series_style(position)["color"], paths[position], turns)
            axes.set_title(variant.name)
    return Drawn("trajectories", figure, "Emotion over the turns of a dialogue: median, middle half and middle four fifths, per variant")


def _trajectory_panel(axes: Axes, colour: str, paths: Sequence[Sequence[int]], turns: int) -> None:
    _emotion_axis(axes, "")
    axes.set_xlabel("Turn")
    axes.set_xticks(range(0, turns + 1, 2 if turns > 6 else 1))
    ink.without_grid(axes, "x")
    if not paths:
        return
    held = np.array([[*path, *[path[-1]] * (turns + 1 - len(path))] for path in paths], dtype=float)
    steps = np.arange(turns + 1)
    every = max(1, math.ceil(len(paths) / _LINES_SHOWN))
    for path in paths[::every]:
        axes.plot(range(len(path)), path, color=colour, linewidth=0.5, alpha=0.22)
    for outer, alpha in ((10, 0.12), (25, 0.22)):
        low, high = np.percentile(held, [outer, 100 - outer], axis=0)
        axes.fill_between(steps, low, high, color=colour, alpha=alpha, linewidth=0)
    axes.plot(steps, np.median(held, axis=0), color=colour, linewidth=2.2)


@_figure
def need_map(material: Material) -> Drawn | None:
    """Need by variant, twice: mean final emotion, and the share of right acts. The fuller a cell, the higher."""
    needs = tables.group_names(material, "by_need")
    if not needs:
        return None
    names = [variant.name for variant in material.variants]
    stacked = len(names) > 5
    panels = (("emotion_mean", "Mean final emotion", 100.0, "{:.0f}"), ("right_act_rate", "Right act after a cue", 1.0, "{:.0%}"))
    with ink.drawing(WIDTH, (0.9 + 0.32 * len(needs)) * (2 if stacked else 1)) as figure:
        grid = figure.subplots(2 if stacked else 1, 1 if stacked else 2, sharey=True, squeeze=False).flat
        for axes, (key, title, whole, layout) in zip(grid, panels, strict=True):
            cells = [[tables.group_value(variant, "by_need", need, key) for variant in material.variants] for need in needs]
            _map_panel(axes, cells, whole, layout)
            axes.set_title(title, pad=20 if not stacked else 16)
            axes.set_xticks(range(len(names)), names)
            axes.set_yticks(range(len(needs)), [readable(need) for need in needs])
    return Drawn("need-map", figure, "Mean final emotion and share of right acts for every hidden need and variant")


def _map_panel(axes: Axes, cells: Sequence[Sequence[float | None]], whole: float, layout: str) -> None:
    ink.without_grid(axes, "both")
    axes.xaxis.tick_top()
    axes.spines[:].set_visible(False)
    axes.set_xlim(-0.5, len(cells[0]) - 0.5)
    axes.set_ylim(len(cells) - 0.5, -0.5)
    axes.tick_params(axis="both", labelcolor=ink.INK, length=0)
    for row, values in enumerate(cells):
        for column, value in enumerate(values):
            if value is None:
                axes.text(column, row, "–", ha="center", va="center", color=ink.MUTED)
                continue
            share = min(1.0, max(0.0, value / whole))
            alpha = round(0.06 + 0.86 * share, 3)
            axes.add_patch(Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, facecolor=ink.ACCENT, alpha=alpha, linewidth=0))
            colour = ink.ON_ACCENT if share > 0.6 else ink.INK
            axes.text(column, row, layout.format(value), ha="center", va="center", color=colour)


@_figure
def need_bars(material: Material) -> Drawn | None:
    """Mean final emotion with its 95% interval, one panel a need, one bar a variant."""
    needs = tables.group_names(material, "by_need")
    if not needs:
        return None
    names = [variant.name for variant in material.variants]
    columns = 4
    rows = math.ceil(len(needs) / columns)
    with ink.drawing(WIDTH, (0.75 + 0.24 * len(names)) * rows) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat
        for axes in grid[len(needs) :]:
            axes.set_axis_off()
        for axes, need in zip(grid[: len(needs)], needs, strict=True):
            for position, variant in enumerate(material.variants):
                mean = tables.group_value(variant, "by_need", need, "emotion_mean")
                ends = tables.group_value(variant, "by_need", need, "emotion_ci95")
                if mean is not None and ends is not None:
                    colour = ink.series_style(position)["color"]
                    axes.barh(position, mean, height=0.66, color=colour, alpha=0.8, linewidth=0)
                    axes.plot(ends, [position, position], color=ink.INK, linewidth=1.1)
            axes.set_title(readable(need), fontsize=8.5)
            axes.set_xlim(0, 100)
            axes.set_ylim(len(names) - 0.4, -0.6)
            axes.set_yticks(range(len(names)), names)
            ink.without_grid(axes, "y")
    return Drawn("need-bars", figure, "Mean final emotion with 95% intervals for every hidden need and variant")


def _paths(dialogues: Sequence[Dialogue]) -> list[list[int]]:
    """Start and the emotion after each turn, of the dialogues that can be scored."""
    return [
        [dialogue.emotion_start, *(turn.emotion for turn in dialogue.turns if turn.emotion is not None)]
        for dialogue in dialogues
        if dialogue.emotion_final is not None
    ]


def _running_mean(values: Sequence[float]) -> list[float]:
    """Centred mean over a few steps, shorter at the ends; NaN stays NaN and counts for nobody else."""
    half = _SMOOTHED_STEPS // 2
    means = []
    for index, value in enumerate(values):
        around = [other for other in values[max(0, index - half) : index + half + 1] if not math.isnan(other)]
        means.append(math.nan if math.isnan(value) else math.fsum(around) / len(around))
    return means


def _emotion_axis(axes: Axes, label: str) -> None:
    axes.set_ylim(0, 103)
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.set_ylabel(label)
    for bound, colour in ((SUCCESS, ink.GOOD), (FAILURE, ink.BAD)):
        axes.axhline(bound, color=colour, linewidth=0.7, linestyle=(0, (4, 3)))
