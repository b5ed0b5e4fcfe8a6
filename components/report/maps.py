"""The figures by hidden need: a map to see holes, bars to see how sure the figures are.

The cognition map: every policy with its intervals as a cross, and its name where no dot and no other name is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from rlver.components.report import ink, tables
from rlver.components.report.material import Material
from rlver.components.report.panels.needs import maps
from rlver.components.report.portraits import Estimate, estimate, portrait_of
from rlver.components.report.wording import DASH, number, readable

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
    needs = tables.group_names(material, "by_need")
    if not needs:
        return None
    names = [variant.name for variant in material.variants]
    columns = 4
    rows = math.ceil(len(needs) / columns)
    with ink.drawing(ink.WIDTH, (0.75 + 0.24 * len(names)) * rows) as figure:
        for axes, need in zip(ink.grid(figure, len(needs), columns, shared=True)[0], needs, strict=True):
            for position, (number, variant) in enumerate(material.numbered):
                mean = tables.group_value(variant, "by_need", need, "emotion_mean")
                ends = tables.ends(tables.group_value(variant, "by_need", need, "emotion_ci95"))
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


SIDE = 400.0  # of the map, in units of its view box
_EXTENT = 5.0  # of the map, in either direction
_DOT = 6.0  # radius, with a little air
_NAME_HEIGHT, _LETTER_WIDTH = 13.0, 7.2
_DIRECTIONS = ((1, 0), (-1, 0), (1, -1), (1, 1), (-1, -1), (-1, 1), (0, -1), (0, 1))
_DISTANCES = range(10, 200, 10)


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: Box) -> bool:
        return self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom


class MapPlace(NamedTuple):
    """A variant on the map, with its intervals as ranges."""

    variant: str
    x: float
    y: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    said: str


class Named(NamedTuple):
    """A place and its name: left end and baseline of the text, and the line that leads to it from afar, if it stands there."""

    place: MapPlace
    name_x: float
    name_y: float
    leader: str


def places(material: Material) -> list[MapPlace]:
    """Every variant with both coordinates, -5 to 5, in units of the map."""
    found = []
    for variant in material.variants:
        cognition = portrait_of(variant).get("cognition")
        x, y = (estimate(cognition.get(axis)) if isinstance(cognition, Mapping) else None for axis in ("x", "y"))
        if x is not None and y is not None:
            said = f"{variant.name}: creative {number(x.value, 2)}, emotion {number(y.value, 2)}"
            found.append(MapPlace(variant.name, _across(x.value), _up(y.value), _range(x, _across), _range(y, _up), said))
    return found


def named(places: Sequence[MapPlace]) -> list[Named]:
    """Names from top to bottom, each at the nearest free spot around its dot; right of it where all spots are taken."""
    taken = [Box(place.x - _DOT, place.y - _DOT, place.x + _DOT, place.y + _DOT) for place in places]
    found = []
    for place in sorted(places, key=lambda place: (place.y, place.x)):
        spots = list(_spots(place))
        box, is_far = next(((box, far) for box, far in spots if not any(map(box.covers, taken))), spots[0])
        taken.append(box)
        leader = f"M{place.x},{place.y}L{min(max(place.x, box.left), box.right):.1f},{(box.top + box.bottom) / 2:.1f}" if is_far else ""
        found.append(Named(place, round(box.left, 1), round(box.bottom - 3, 1), leader))
    return found


def _spots(place: MapPlace) -> Iterator[tuple[Box, bool]]:
    """Boxes for the name inside the map, the nearest first, and whether one is so far off that it needs a line."""
    width = _LETTER_WIDTH * len(place.variant)
    for distance in _DISTANCES:
        for across, down in _DIRECTIONS:
            middle_x = place.x + across * (distance + width / 2)
            middle_y = place.y + down * (distance + (0 if across else _NAME_HEIGHT / 2))
            box = Box(middle_x - width / 2, middle_y - _NAME_HEIGHT / 2, middle_x + width / 2, middle_y + _NAME_HEIGHT / 2)
            if distance == _DISTANCES[0] or (box.left >= 0 and box.top >= 0 and box.right <= SIDE and box.bottom <= SIDE):
                yield box, distance > _DISTANCES[0]


def _across(value: float) -> float:
    return round(SIDE * (1 + min(1.0, max(-1.0, value / _EXTENT))) / 2, 1)


def _up(value: float) -> float:
    return round(SIDE * (1 - min(1.0, max(-1.0, value / _EXTENT))) / 2, 1)


def _range(one: Estimate, scale: Any) -> tuple[float, float]:
    low, high = one.ends or (one.value, one.value)
    return scale(low), scale(high)
