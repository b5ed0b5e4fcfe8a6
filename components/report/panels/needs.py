"""How users feel by what they came for, and by what kind of person they are: a map to see holes (the fuller a cell the higher), and by
hidden need bars to see how sure the figures are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from rlver.components.report import ink
from rlver.components.report.material import Material
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.tables import NUMBER, PERCENT, Cell, Column, Form, Table, ends, group_names, group_values
from rlver.components.report.wording import DASH, readable


class _Map(NamedTuple):
    """A table that is also coloured: a cell is full at `whole`."""

    table: Table
    whole: float


class _Quantity(NamedTuple):
    key: str
    ends_key: str
    form: Form
    whole: float
    title: str


_EMOTION = _Quantity("emotion_mean", "emotion_ci95", NUMBER, 100.0, "Mean final emotion")
_RIGHT_ACT = _Quantity("right_act_by_turn", "right_act_by_turn_ci95", PERCENT, 1.0, "Right act after a hint, by turn")


def maps(material: Material) -> list[_Map]:
    """Emotion by need, right acts by need, emotion by class: those of which anything is known beyond one group."""
    found = (
        _map(material, "needs", "by_need", _EMOTION, "by need"),
        _map(material, "right-acts", "by_need", _RIGHT_ACT, "by need"),
        _map(material, "classes", "by_class", _EMOTION, "by kind of person"),
    )
    return [one for one in found if one is not None]


def _map(material: Material, name: str, grouping: str, quantity: _Quantity, over: str) -> _Map | None:
    groups = [group for group in group_names(material, grouping) if group != "unknown"]
    rows = tuple(
        (Cell(variant.name), *(_cell(group_values(variant, grouping, group), quantity) for group in groups))
        for variant in material.variants
    )
    if not any(cell.value is not None for row in rows for cell in row[1:]):
        return None
    columns = (Column("policy", "Policy"), *(Column(group, readable(group), quantity.form, group) for group in groups))
    return _Map(Table(name, f"{quantity.title} {over}", columns, rows), quantity.whole)


def _cell(values: Mapping[str, Any], quantity: _Quantity) -> Cell:
    return Cell(values.get(quantity.key), ends(values.get(quantity.ends_key)))


_LAYOUTS = {"needs": "{:.0f}", "right-acts": "{:.0%}"}  # of the numbers of a map


def need_map(material: Material) -> ink.Drawn | None:
    """Variant by need: mean final emotion, and the share of right acts, as far as they are known. The fuller a cell, the higher."""
    found = [(one, layout) for one in maps(material) if (layout := _LAYOUTS.get(one.table.name))]
    if not found:
        return None
    with ink.drawing(ink.WIDTH, len(found) * (0.72 + 0.34 * len(material.variants))) as figure:
        for axes, ((table, whole), layout) in zip(figure.subplots(len(found), 1, squeeze=False).flat, found, strict=True):
            needs, names = [column.key for column in table.columns[1:]], [str(row[0].value) for row in table.rows]
            cells = [[None if isinstance(cell.value, str) else cell.value for cell in row[1:]] for row in table.rows]
            map_panel(axes, names, needs, cells, whole, layout)
            axes.set_title(table.title, pad=10)
    return ink.Drawn("need-map", figure, "Mean final emotion and share of right acts for every hidden need and variant")


def map_panel(
    axes: Axes, rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[float | None]], whole: float, layout: str
) -> None:
    """Named rows and columns of cells that are the fuller the nearer to `whole` they are, with their number; None is a dash."""
    ink.without_grid(axes, "both")
    axes.xaxis.tick_top()
    axes.spines[:].set_visible(False)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(columns)), [readable(one).replace(" ", "\n", 1) for one in columns], linespacing=1.15, va="baseline")
    axes.set_yticks(range(len(rows)), rows)
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
    needs = group_names(material, "by_need")
    if not needs:
        return None
    names = [variant.name for variant in material.variants]
    with ink.small_plots(len(needs), 4, 0.75 + 0.24 * len(names), shared=True) as (figure, cells, _):
        for axes, need in zip(cells, needs, strict=True):
            for position, (number, variant) in enumerate(material.numbered):
                mean = _cell(group_values(variant, "by_need", need), _EMOTION)
                if mean.value is not None and mean.ends is not None:
                    colour = ink.series_style(number)["color"]
                    axes.barh(position, mean.value, height=0.66, color=colour, alpha=0.8, linewidth=0)
                    axes.plot(mean.ends, [position, position], color=ink.INK, linewidth=1.1)
            axes.set_title(readable(need), fontsize=8.5)
            axes.set_xlim(0, 100)
            axes.set_ylim(len(names) - 0.4, -0.6)
            axes.set_yticks(range(len(names)), names)
            ink.without_grid(axes, "y")
    return ink.Drawn("need-bars", figure, "Mean final emotion with 95% intervals for every hidden need and variant")


def tables(material: Material, _: ReportRun) -> Sequence[Table]:
    return [one.table for one in maps(material)]


def values(material: Material, _: ReportRun) -> Mapping[str, Any] | None:
    found = maps(material)
    return {"maps": found} if found else None


PANEL = Panel("needs", "Needs", values, tables)
