"""Figures over the checkpoints of a training: acts, what follows them, how the policy talks, and two appraisers. Bands are 95% intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from components.evaluation.report import ink
from components.evaluation.report.acts import shown_acts
from components.evaluation.report.loading import Material
from components.evaluation.report.over_training import Series, opinions, series
from components.evaluation.report.portraits import Estimate
from components.evaluation.report.trajectories import emotion_axis
from components.evaluation.report.wording import readable

_COLUMNS = 5
HABITS = (
    ("reply_words", "Words per reply"),
    ("thought_words", "Words per thought"),
    ("repeated_runs", "Repeated within a dialogue"),
    ("stock_replies", "Said to another persona too"),
    ("distinct_2", "Distinct pairs of words"),
)  # fmt: skip


class _Plot(NamedTuple):
    title: str
    series: Sequence[Series]


def acts_over_training(material: Material) -> ink.Drawn | None:
    """The share of replies with each act."""
    plots = [_Plot(readable(act), series(material, ("acts", act, "frequency"))) for act in shown_acts(material)]
    return _drawn("acts-over-training", plots, _as_shares, "Share of replies with each dialogue act over training steps")


def changes_over_training(material: Material) -> ink.Drawn | None:
    """The mean change of emotion after replies with each act."""
    plots = [_Plot(readable(act), series(material, ("acts", act, "contribution"))) for act in shown_acts(material)]
    return _drawn("changes-over-training", plots, _as_changes, "Mean change of emotion after each dialogue act over training steps")


def habits_over_training(material: Material) -> ink.Drawn | None:
    """Length, thoughts, repetition and diversity of replies."""
    plots = [_Plot(title, series(material, ("behaviour", name))) for name, title in HABITS]
    return _drawn("habits-over-training", plots, _from_zero, "Length of replies and thoughts, repetition and diversity over training steps")


def appraisers_over_training(material: Material) -> ink.Drawn | None:
    """A plot a variant: the mean final emotion of held-out users by their own appraiser, and by one that paid nothing in training."""
    found = [(i, v.name, own, opinions(v, "second")) for i, v in material.numbered if (own := opinions(v, "own"))]
    if not found:
        return None
    columns = min(3, len(found))
    rows = math.ceil(len(found) / columns)
    with ink.drawing(ink.WIDTH * max(columns, 2) / 3, 2.5 * rows) as figure:
        grid = list(figure.subplots(rows, columns, squeeze=False).flat)
        _hide(grid[len(found) :])
        for axes, (position, name, own, second) in zip(grid[: len(found)], found, strict=True):
            emotion_axis(axes)
            ink.without_grid(axes, "x")
            axes.set_title(name)
            axes.set_xlabel("Training step")
            _line(axes, own, {"color": ink.series_style(position)["color"], "linestyle": "-"}, "its own user")
            _line(axes, second, {"color": ink.INK, "linestyle": (0, (4, 2))}, "the second appraiser")
            axes.legend(loc="lower right")
    return ink.Drawn("appraisers-over-training", figure, "Mean final emotion over training steps in the eyes of two appraisers")


def _drawn(name: str, plots: Sequence[_Plot], scaled: Callable[[Axes], None], description: str) -> ink.Drawn | None:
    """Small plots of one scale; None where nothing is known. Who is who stands in the first free cell."""
    shown = [plot for plot in plots if plot.series]
    if not shown:
        return None
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    with ink.drawing(ink.WIDTH, 1.85 * rows) as figure:
        grid = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes, plot in zip(grid[: len(shown)], shown, strict=True):
            for one in plot.series:
                _line(axes, one.points, ink.series_style(one.position), one.variant)
            axes.set_title(plot.title, fontsize=8.5)
            axes.locator_params(axis="x", nbins=4, integer=True)
            ink.without_grid(axes, "x")
            scaled(axes)
        _hide(grid[len(shown) :])
        _name_the_lines(figure, grid[0], grid[len(shown) :])
    return ink.Drawn(name, figure, description)


def _line(axes: Axes, points: Sequence[tuple[int, Estimate]], style: dict[str, Any], label: str) -> None:
    """A mark a checkpoint, joined, in a band of its intervals."""
    steps = [step for step, _ in points]
    low, high = zip(*(one.ends or (one.value, one.value) for _, one in points), strict=True) if points else ((), ())
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


def _hide(unused: Sequence[Axes]) -> None:
    for axes in unused:
        axes.set_axis_off()


def _name_the_lines(figure: Figure, first: Axes, free: Sequence[Axes]) -> None:
    handles, labels = first.get_legend_handles_labels()
    if free:
        free[0].legend(handles, labels, loc="center left")
    else:
        figure.legend(handles, labels, loc="outside lower left", ncols=6)
