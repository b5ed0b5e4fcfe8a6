"""Figures over the checkpoints of a training: acts, what follows them, how the policy talks, and two appraisers. Bands are 95% intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlver.components.report import ink
from rlver.components.report.curves import emotion_axis
from rlver.components.report.material import Material
from rlver.components.report.portraits import Estimate, Series, opinions, series, shown_acts
from rlver.components.report.tables import NUMBER, PERCENT
from rlver.components.report.wording import readable

_COLUMNS = 5
MOST_BANDS = 3  # more of them hide each other
HABITS = (
    ("reply_words", "Words per reply", NUMBER),
    ("thought_words", "Words per thought", NUMBER),
    ("repeated_runs", "Repeated within a dialogue", PERCENT),
    ("stock_replies", "Said to another persona too", PERCENT),
    ("different_words", "Different words among 25", PERCENT),
)  # fmt: skip


class _Plot(NamedTuple):
    title: str
    scaled: Callable[[Axes], None]
    series: Sequence[Series]


def acts_over_training(material: Material) -> ink.Drawn | None:
    """The share of replies with each act."""
    plots = [_Plot(readable(act), _as_shares, series(material, ("acts", act, "frequency"))) for act in shown_acts(material)]
    return _drawn("acts-over-training", plots, "Share of replies with each dialogue act over training steps")


def changes_over_training(material: Material) -> ink.Drawn | None:
    """The mean change of emotion after replies with each act."""
    plots = [_Plot(readable(act), _as_changes, series(material, ("acts", act, "contribution"))) for act in shown_acts(material)]
    return _drawn("changes-over-training", plots, "Mean change of emotion after each dialogue act over training steps")


def habits_over_training(material: Material) -> ink.Drawn | None:
    """Length, thoughts, repetition and diversity of replies."""
    plots = [
        _Plot(title, _as_shares if form is PERCENT else _from_zero, series(material, ("behaviour", name))) for name, title, form in HABITS
    ]
    return _drawn("habits-over-training", plots, "Length of replies and thoughts, repetition and diversity over training steps")


def appraisers_over_training(material: Material) -> ink.Drawn | None:
    """A plot a variant: the mean final emotion of held-out users by their own appraiser, and by one that paid nothing in training."""
    found = [(i, v.name, own, opinions(v, "second")) for i, v in material.numbered if (own := opinions(v, "own"))]
    if not found:
        return None
    columns = 2 if len(found) < 3 else 3
    rows = math.ceil(len(found) / columns)
    with ink.drawing(ink.WIDTH, 2.5 * rows) as figure:
        for axes, (position, name, own, second) in zip(ink.grid(figure, len(found), columns)[0], found, strict=True):
            emotion_axis(axes)
            ink.without_grid(axes, "x")
            axes.set_title(name)
            axes.set_xlabel("Training step")
            colour = ink.series_style(position)["color"]
            _line(axes, own, {"color": colour, "linestyle": "-"}, "its own user", has_band=True)
            _line(axes, second, {"color": colour, "linestyle": (0, (3, 2))}, "the second appraiser", has_band=True)
    return ink.Drawn("appraisers-over-training", figure, "Mean final emotion over training steps in the eyes of two appraisers")


def _drawn(name: str, plots: Sequence[_Plot], description: str) -> ink.Drawn | None:
    """Small plots; None where nothing is known. Who is who stands in the first free cell."""
    shown = [plot for plot in plots if plot.series]
    if not shown:
        return None
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    with ink.drawing(ink.WIDTH, 1.85 * rows) as figure:
        cells, free = ink.grid(figure, len(shown), columns)
        for axes, plot in zip(cells, shown, strict=True):
            for one in plot.series:
                _line(axes, one.points, ink.series_style(one.position), one.variant, has_band=len(plot.series) <= MOST_BANDS)
            axes.set_title(plot.title, fontsize=8.5)
            axes.locator_params(axis="x", nbins=4, integer=True)
            ink.without_grid(axes, "x")
            plot.scaled(axes)
        fullest = max(range(len(shown)), key=lambda index: len(shown[index].series))
        if len(shown[fullest].series) > 1:
            _name_the_lines(figure, cells[fullest], free)
    return ink.Drawn(name, figure, description)


def _line(axes: Axes, points: Sequence[tuple[int, Estimate]], style: dict[str, Any], label: str, has_band: bool) -> None:
    """A mark a checkpoint, joined; `has_band`: in a band of its intervals."""
    steps = [step for step, _ in points]
    if has_band and points:
        low, high = zip(*(one.ends or (one.value, one.value) for _, one in points), strict=True)
        axes.fill_between(steps, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.plot(steps, [one.value for _, one in points], **style, linewidth=1.4, marker="o", markersize=2.5, label=label)


def _as_shares(axes: Axes) -> None:
    axes.set_ylim(0, max(0.25, axes.get_ylim()[1]))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    axes.locator_params(axis="y", nbins=4)


def _as_changes(axes: Axes) -> None:
    axes.set_ylim(-10.5, 10.5)
    axes.set_yticks([-10, 0, 10], ["\u221210", "0", "+10"])
    axes.axhline(0, color=ink.MUTED, linewidth=0.7)


def _from_zero(axes: Axes) -> None:
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="y", nbins=4)


def _name_the_lines(figure: Figure, fullest: Axes, free: Sequence[Axes]) -> None:
    handles, labels = fullest.get_legend_handles_labels()
    if free:
        free[0].legend(handles, labels, loc="center left")
    else:
        figure.legend(handles, labels, loc="outside lower left", ncols=6)
