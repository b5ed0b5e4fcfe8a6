"""The emotion over the turns of a dialogue, a small plot a variant, and how the dialogues end.

The page's plots are SVG of our own, because single dialogues are drawn into them under the pointer; the files in plots/ are matplotlib's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rlver.components.report.curves import held, paths_of
from rlver.components.report.material import Material, Variant
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.tables import COUNT, Cell, Column, Table
from rlver.components.report.wording import OUTCOMES, outcome

_LINES_SHOWN = 40  # single dialogues behind a median
_QUANTILES = (10, 25, 50, 75, 90)


class Frame(NamedTuple):
    """Where the plot lies in its drawing, in units of the view box, and how many turns it spans."""

    left: float
    top: float
    width: float
    height: float
    turns: int

    def points(self, emotions: Sequence[float]) -> list[str]:
        step = self.width / self.turns
        return [f"{self.left + turn * step:.1f},{self.top + self.height * (1 - e / 100):.1f}" for turn, e in enumerate(emotions)]

    def line(self, emotions: Sequence[float]) -> str:
        return f"M{'L'.join(self.points(emotions))}"

    def band(self, low: Sequence[float], high: Sequence[float]) -> str:
        return f"M{'L'.join([*self.points(low), *reversed(self.points(high))])}Z"


class Plot(NamedTuple):
    """One variant: paths of the median, the bands and some single dialogues; `end` is the last median, at height `end_y`."""

    variant: str
    dialogues: int
    median: str
    middle_half: str
    middle_four_fifths: str
    singles: str
    end: float
    end_y: float


def plots(material: Material) -> tuple[Frame, list[Plot]] | None:
    """None when no dialogue can be drawn."""
    paths = {variant.name: paths_of(variant.dialogues) for variant in material.variants}
    turns = max((len(path) for group in paths.values() for path in group), default=1) - 1
    if turns < 1:
        return None
    frame = Frame(22, 8, 186, 116, turns)
    return frame, [_plot(name, group, frame) for name, group in paths.items() if group]


def _plot(name: str, paths: Sequence[Sequence[int]], frame: Frame) -> Plot:
    low, first, median, third, high = np.percentile(held(paths, frame.turns), _QUANTILES, axis=0).tolist()
    every = max(1, math.ceil(len(paths) / _LINES_SHOWN))
    return Plot(
        variant=name,
        dialogues=len(paths),
        median=frame.line(median),
        middle_half=frame.band(first, third),
        middle_four_fifths=frame.band(low, high),
        singles="".join(frame.line(path) for path in paths[::every]),
        end=median[-1],
        end_y=frame.top + frame.height * (1 - median[-1] / 100),
    )


def tables(material: Material, _: ReportRun) -> Sequence[Table]:
    columns = (Column("policy", "Policy"), *(Column(name.replace(" ", "_"), name.capitalize(), COUNT) for name in OUTCOMES))
    rows = ((Cell(v.name), *(Cell(count) for _, count in endings(v))) for v in material.variants)
    return [Table("endings", "How dialogues end", columns, tuple(rows))]


def endings(variant: Variant) -> list[tuple[str, int]]:
    """Outcome and number of dialogues, in the order of OUTCOMES."""
    counts = Counter(outcome(dialogue) for dialogue in variant.dialogues)
    return [(name, counts[name]) for name in OUTCOMES]


def values(material: Material, _: ReportRun) -> Mapping[str, Any]:
    drawn = plots(material)
    return {
        "frame": drawn[0] if drawn else None,
        "plots": drawn[1] if drawn else [],
        "endings": [(variant.name, endings(variant)) for variant in material.variants],
        "outcomes": OUTCOMES,
    }


PANEL = Panel("emotion", "Emotion", values, tables)
