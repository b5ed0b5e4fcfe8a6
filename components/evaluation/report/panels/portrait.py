"""What kind of talker a policy is: its capabilities as a radar, its place on the cognition map, its behaviour as a table.

All of it comes from `portrait` in metrics/<variant>/sentient.json (see `portraits`); a part that no policy has is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from components.evaluation.report.loading import Material
from components.evaluation.report.panels.panel import Panel, Run
from components.evaluation.report.portraits import Estimate, estimate, estimates, portrait, remarks
from components.evaluation.report.table import Cell, Column, Form, Table
from components.evaluation.report.wording import interval, number, readable

_LOW, _HIGH = 1.0, 5.0  # of a capability (RLVER paper, appendix C)
_CENTRE, _RADIUS = (120.0, 88.0), 56.0
_EXTENT = 5.0  # of the cognition map, in either direction
_SIDE, _LABEL_GAP = 400.0, 13.0  # of the map, in units of its view box
_AXES = {"x": "Structured → creative", "y": "Solution → emotion"}  # of the map
_FORM = Form(lambda value: number(value, 2), lambda ends: interval(ends, 2))


class Spoke(NamedTuple):
    """One capability on a radar: where its axis ends, where its name stands (a word a line), and the two ends of the interval."""

    words: tuple[str, ...]
    x: float
    y: float
    label_x: float
    label_y: float
    anchor: str
    whisker: str


class Radar(NamedTuple):
    variant: str
    outline: str
    spokes: list[Spoke]


class Place(NamedTuple):
    """A variant on the map, with its intervals as ranges, and the height of its label."""

    variant: str
    x: float
    y: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    label_y: float
    said: str


def radars(material: Material) -> list[Radar]:
    """One for every variant with at least three capabilities; all have the same axes, and a missing value lies at the centre of none."""
    known = {variant.name: estimates(portrait(variant).get("capabilities")) for variant in material.variants}
    names = list(dict.fromkeys(name for values in known.values() for name in values))
    return [_radar(variant, names, values) for variant, values in known.items() if len(names) >= 3 and values.keys() == set(names)]


def _radar(variant: str, names: Sequence[str], values: Mapping[str, Estimate]) -> Radar:
    spokes, outline = [], []
    for index, name in enumerate(names):
        angle = 2 * math.pi * index / len(names) - math.pi / 2
        outline.append(_at(angle, values[name].value))
        low, high = values[name].ends or (values[name].value,) * 2
        (x, y), (label_x, label_y) = _polar(angle, _RADIUS), _polar(angle, _RADIUS + 10)
        anchor = "middle" if abs(math.cos(angle)) < 0.2 else "start" if math.cos(angle) > 0 else "end"
        words = tuple(readable(name).split(" ", 1))
        first_line = label_y + 3 - (9 if math.sin(angle) < -0.9 else 4) * (len(words) - 1)
        spokes.append(Spoke(words, x, y, label_x, first_line, anchor, f"M{_at(angle, low)}L{_at(angle, high)}"))
    return Radar(variant, f"M{'L'.join(outline)}Z", spokes)


def _at(angle: float, value: float) -> str:
    x, y = _polar(angle, _RADIUS * (min(_HIGH, max(_LOW, value)) - _LOW) / (_HIGH - _LOW))
    return f"{x:.1f},{y:.1f}"


def _polar(angle: float, radius: float) -> tuple[float, float]:
    return round(_CENTRE[0] + radius * math.cos(angle), 1), round(_CENTRE[1] + radius * math.sin(angle), 1)


def places(material: Material) -> list[Place]:
    """Every variant with both coordinates, -5 to 5, in units of the map."""
    found = []
    for variant in material.variants:
        cognition = portrait(variant).get("cognition")
        x, y = (estimate(cognition.get(axis)) if isinstance(cognition, Mapping) else None for axis in ("x", "y"))
        if x is not None and y is not None:
            said = f"{variant.name}: creative {number(x.value, 2)}, emotion {number(y.value, 2)}"
            found.append(Place(variant.name, _across(x.value), _up(y.value), _range(x, _across), _range(y, _up), _up(y.value), said))
    return _apart(found)


def _across(value: float) -> float:
    return round(_SIDE * (1 + min(1.0, max(-1.0, value / _EXTENT))) / 2, 1)


def _up(value: float) -> float:
    return round(_SIDE * (1 - min(1.0, max(-1.0, value / _EXTENT))) / 2, 1)


def _range(one: Estimate, scale: Any) -> tuple[float, float]:
    low, high = one.ends or (one.value, one.value)
    return scale(low), scale(high)


def _apart(places: Sequence[Place]) -> list[Place]:
    """Labels from top to bottom, each far enough below the one before to be read."""
    apart: list[Place] = []
    for place in sorted(places, key=lambda place: place.y):
        least = max((other.label_y + _LABEL_GAP for other in apart if abs(other.x - place.x) < _SIDE / 3), default=0.0)
        apart.append(place._replace(label_y=max(place.y, least)))
    return apart


def tables(material: Material, _: Run) -> Sequence[Table]:
    """Capabilities, cognition, behaviour: a row a policy. Strategies: a row a policy and act."""
    flat = [_flat(material, part) for part in ("capabilities", "cognition", "behaviour")]
    return [table for table in (*flat, _strategies(material)) if table is not None]


def _flat(material: Material, part: str) -> Table | None:
    known = {variant.name: estimates(portrait(variant).get(part)) for variant in material.variants}
    names = list(dict.fromkeys(name for values in known.values() for name in values))
    rows = tuple((Cell(variant), *_cells(values, names)) for variant, values in known.items() if values)
    return Table(part, readable(part), (Column("policy", "Policy"), *_columns(names)), rows) if rows else None


def _strategies(material: Material) -> Table | None:
    rows = []
    for variant in material.variants:
        acts = portrait(variant).get("strategies")
        rows += [(variant.name, str(act), estimates(of)) for act, of in (acts.items() if isinstance(acts, Mapping) else ())]
    names = list(dict.fromkeys(name for _, _, values in rows for name in values))
    if not names:
        return None
    columns = (Column("policy", "Policy"), Column("act", "Act"), *_columns(names))
    lines = tuple((Cell(variant), Cell(readable(act)), *_cells(values, names)) for variant, act, values in rows if values)
    return Table("strategies", "What each act brings", columns, lines)


def _columns(names: Sequence[str]) -> list[Column]:
    return [Column(name, _AXES.get(name, readable(name)), _FORM, name) for name in names]


def _cells(values: Mapping[str, Estimate], names: Sequence[str]) -> list[Cell]:
    return [Cell(values[name].value, values[name].ends) if name in values else Cell(None) for name in names]


def values(material: Material, run: Run) -> Mapping[str, Any] | None:
    found = tables(material, run)
    if not found:
        return None
    drawn = radars(material)
    base = material.base.name if material.base else None
    return {
        "radars": drawn,
        "base_outline": next((radar.outline for radar in drawn if radar.variant == base), None),
        "base": base,
        "rings": [_RADIUS * ring / 4 for ring in range(1, 5)],
        "centre": _CENTRE,
        "places": places(material),
        "side": _SIDE,
        "tables": found,
        "remarks": sorted({f"{readable(name)}: {text}" for variant in material.variants for name, text in remarks(variant).items()}),
    }


PANEL = Panel("portrait", "Portrait", values, tables)
