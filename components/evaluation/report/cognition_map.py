"""The cognition map: every policy with its intervals as a cross, and its name where no dot and no other name is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from components.evaluation.report.loading import Material
from components.evaluation.report.portraits import Estimate, estimate, portrait
from components.evaluation.report.wording import number

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


class Place(NamedTuple):
    """A variant on the map, with its intervals as ranges."""

    variant: str
    x: float
    y: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    said: str


class Named(NamedTuple):
    """A place and its name: left end and baseline of the text, and the line that leads to it from afar, if it stands there."""

    place: Place
    name_x: float
    name_y: float
    leader: str


def places(material: Material) -> list[Place]:
    """Every variant with both coordinates, -5 to 5, in units of the map."""
    found = []
    for variant in material.variants:
        cognition = portrait(variant).get("cognition")
        x, y = (estimate(cognition.get(axis)) if isinstance(cognition, Mapping) else None for axis in ("x", "y"))
        if x is not None and y is not None:
            said = f"{variant.name}: creative {number(x.value, 2)}, emotion {number(y.value, 2)}"
            found.append(Place(variant.name, _across(x.value), _up(y.value), _range(x, _across), _range(y, _up), said))
    return found


def named(places: Sequence[Place]) -> list[Named]:
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


def _spots(place: Place) -> Iterator[tuple[Box, bool]]:
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
