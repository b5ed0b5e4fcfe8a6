"""What kind of talker a policy is: its capabilities as a radar, its place on the cognition map, its behaviour as a table.

All of it comes from `portrait` in metrics/<variant>/sentient.json (see `portraits`); a part that no policy has is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rlver.components.report.material import Material
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.portraits import Estimate, cell, estimate, estimates, portrait_of, remarks
from rlver.components.report.tables import COUNT, PERCENT, SIGNED, Cell, Column, Form, Table
from rlver.components.report.wording import interval, number, readable

_LOW, _HIGH = 1.0, 5.0  # of a capability (RLVER paper, appendix C)
_CENTRE, _RADIUS = (120.0, 88.0), 56.0
_AXES = {"x": "Structured → creative", "y": "Solution → emotion"}  # of the map
_FORM = Form(lambda value: number(value, 2), lambda ends: interval(ends, 2))
_SHARES = ("frequency", "strategy_acceptance", "need_expression", "replies_with_thought", "thought_share_of_tokens", "repeated_runs",
           "stock_replies")  # fmt: skip
_FORMS = {"contribution": SIGNED, "replies": COUNT} | dict.fromkeys(_SHARES, PERCENT)
_LENGTHS = ("reply_words", "reply_tokens", "length_tracking", "replies_with_thought", "thought_words", "thought_tokens",
            "thought_share_of_tokens", "thought_seconds")  # fmt: skip
_NOTES = {
    "acceptance": "Acceptance: of the replies of one strategy alone, those after which the emotion rises. Need expression: later messages with a "
    "hint at the need.",
    "length": "Per reply. Length tracking: correlation with the length of the user's message, within a dialogue. The share of tokens that are thoughts is what thinking adds to the waiting time, at a constant speed.",
    "behaviour": "Repeated runs: of four words, said before in the same dialogue. Stock replies: told another persona word for word; more dialogues have more. "
    "Different words: among any 25 successive ones, averaged over a dialogue.",
    "strategies": "Frequency: share of replies. Contribution: mean change of emotion after them, which all strategies of a reply share.",
}


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


def radars(material: Material) -> list[Radar]:
    """One for every variant with at least three capabilities; all have the same axes, and a missing value lies at the centre of none."""
    known = {variant.name: estimates(portrait_of(variant).get("capabilities")) for variant in material.variants}
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
            (across, x_range), (down, y_range) = _placed(x, 1), _placed(y, -1)
            found.append(MapPlace(variant.name, across, down, x_range, y_range, said))
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


def _placed(one: Estimate, sign: int) -> tuple[float, tuple[float, float]]:
    """Value and interval in units of the map: from its left edge with `sign` 1, from its upper edge with -1."""
    places = (one.value, *(one.ends or (one.value, one.value)))
    value, low, high = (round(SIDE * (1 + sign * min(1.0, max(-1.0, place / _EXTENT))) / 2, 1) for place in places)
    return value, (low, high)


def tables(material: Material, _: ReportRun) -> Sequence[Table]:
    """Capabilities, cognition, acceptance, length, behaviour: a row a policy. Strategies: a row a policy and strategy."""
    behaviour = dict.fromkeys(name for variant in material.variants for name in estimates(portrait_of(variant).get("behaviour")))
    found = (
        _flat(material, "capabilities"),
        _flat(material, "cognition"),
        _flat(material, "acceptance"),
        _flat(material, "behaviour", "length", "Length and thoughts", [name for name in _LENGTHS if name in behaviour]),
        _flat(material, "behaviour", "behaviour", "Repetition and variety", [name for name in behaviour if name not in _LENGTHS]),
        _strategies(material),
    )
    return [table for table in found if table is not None]


def _flat(material: Material, part: str, name: str = "", title: str = "", chosen: Sequence[str] | None = None) -> Table | None:
    """A part of the portraits as a table; `chosen`: these of its quantities only."""
    known = {variant.name: estimates(portrait_of(variant).get(part)) for variant in material.variants}
    names = list(dict.fromkeys(name for values in known.values() for name in values)) if chosen is None else chosen
    rows = tuple((Cell(variant), *_cells(values, names)) for variant, values in known.items() if any(name in values for name in names))
    columns = (Column("policy", "Policy"), *_columns(names))
    return Table(name or part, title or readable(part), columns, rows, _NOTES.get(name or part, "")) if rows else None


def _strategies(material: Material) -> Table | None:
    rows = []
    for variant in material.variants:
        acts = portrait_of(variant).get("strategies")
        known = ((str(act), estimates(of)) for act, of in (acts.items() if isinstance(acts, Mapping) else ()))
        rows += [(variant.name, act, values) for act, values in known if values.keys() - {"replies"}]  # a count of nothing is no finding
    names = sorted({name for _, _, values in rows for name in values}, key=lambda name: (name != "frequency", name))
    if not names:
        return None
    columns = (Column("policy", "Policy"), Column("strategy", "Strategy"), *_columns(names))
    lines = tuple((Cell(variant), Cell(readable(act)), *_cells(values, names)) for variant, act, values in rows if values)
    return Table("strategies", "What each strategy brings", columns, lines, _NOTES["strategies"])


def _columns(names: Sequence[str]) -> list[Column]:
    forms = ((name, _FORMS.get(name, _FORM)) for name in names)
    return [Column(name, _AXES.get(name, readable(name)), form, None if form is COUNT else name) for name, form in forms]


def _cells(values: Mapping[str, Estimate], names: Sequence[str]) -> list[Cell]:
    return [cell(values.get(name)) for name in names]


def values(material: Material, run: ReportRun) -> Mapping[str, Any] | None:
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
        "places": named(places(material)),
        "side": SIDE,
        "tables": found,
        "remarks": sorted({f"{readable(name)}: {text}" for variant in material.variants for name, text in remarks(variant).items()}),
    }


PANEL = Panel("portrait", "Portrait", values, tables)
