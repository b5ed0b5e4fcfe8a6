"""The figures by hidden need: a map to see holes, bars to see how sure the figures are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from components.evaluation.report import ink, tables
from components.evaluation.report.loading import Material
from components.evaluation.report.wording import DASH, readable


def need_map(material: Material) -> ink.Drawn | None:
    """Variant by need, twice: mean final emotion, and the share of right acts. The fuller a cell, the higher."""
    needs = tables.group_names(material, "by_need")
    if not needs:
        return None
    names = [variant.name for variant in material.variants]
    panels = (("emotion_mean", "Mean final emotion", 100.0, "{:.0f}"), ("right_act_rate", "Right act after a cue", 1.0, "{:.0%}"))
    with ink.drawing(ink.WIDTH, 2 * (0.72 + 0.34 * len(names))) as figure:
        for axes, (key, title, whole, layout) in zip(figure.subplots(2, 1), panels, strict=True):
            cells = [[tables.group_value(variant, "by_need", need, key) for need in needs] for variant in material.variants]
            map_panel(axes, cells, whole, layout)
            axes.set_title(title, pad=10)
            axes.set_xticks(range(len(needs)), [readable(need).replace(" ", "\n", 1) for need in needs], linespacing=1.15, va="baseline")
            axes.set_yticks(range(len(names)), names)
    return ink.Drawn("need-map", figure, "Mean final emotion and share of right acts for every hidden need and variant")


def map_panel(axes: Axes, cells: Sequence[Sequence[float | None]], whole: float, layout: str) -> None:
    """Cells that are the fuller the nearer to `whole` they are, with their number; None is a dash."""
    ink.without_grid(axes, "both")
    axes.xaxis.tick_top()
    axes.spines[:].set_visible(False)
    axes.set_xlim(-0.5, len(cells[0]) - 0.5)
    axes.set_ylim(len(cells) - 0.5, -0.5)
    axes.tick_params(axis="both", labelcolor=ink.INK, length=0)
    for row, values in enumerate(cells):
        for column, value in enumerate(values):
            if value is None:
                axes.text(column, row, DASH, ha="center", va="center", color=ink.MUTED)
                continue
            # Up to this depth the ink reads well on the accent, in light and in dark.
            alpha = round(0.04 + 0.56 * min(1.0, max(0.0, value / whole)), 3)
            axes.add_patch(Rectangle((column - 0.48, row - 0.45), 0.96, 0.9, facecolor=ink.ACCENT, alpha=alpha, linewidth=0))
            axes.text(column, row, layout.format(value), ha="center", va="center_baseline", color=ink.INK)


def need_bars(material: Material) -> ink.Drawn | None:
    """Mean final emotion with its 95% interval, one panel a need, one bar a variant."""
    needs = tables.group_names(material, "by_need")
    if not needs:
        return None
    names = [variant.name for variant in material.variants]
    columns = 4
    rows = math.ceil(len(needs) / columns)
    with ink.drawing(ink.WIDTH, (0.75 + 0.24 * len(names)) * rows) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat
        for axes in grid[len(needs) :]:
            axes.set_axis_off()
        for axes, need in zip(grid[: len(needs)], needs, strict=True):
            for position, (number, variant) in enumerate(material.numbered):
                mean = tables.group_value(variant, "by_need", need, "emotion_mean")
                ends = tables.group_value(variant, "by_need", need, "emotion_ci95")
                if mean is not None and ends is not None:
                    colour = ink.series_style(number)["color"]
                    axes.barh(position, mean, height=0.66, color=colour, alpha=0.8, linewidth=0)
                    axes.plot(ends, [position, position], color=ink.INK, linewidth=1.1)
            axes.set_title(readable(need), fontsize=8.5)
            axes.set_xlim(0, 100)
            axes.set_ylim(len(names) - 0.4, -0.6)
            axes.set_yticks(range(len(names)), names)
            ink.without_grid(axes, "y")
    return ink.Drawn("need-bars", figure, "Mean final emotion with 95% intervals for every hidden need and variant")
