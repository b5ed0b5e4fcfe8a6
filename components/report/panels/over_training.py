"""How policies changed in training: their acts, what follows them, how they talk, and what two appraisers felt, checkpoint by checkpoint.

Needs the held-out dialogues that a training keeps; transcripts alone have no such panel. Bands are 95% intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlver.components.report import ink
from rlver.components.report.curves import emotion_axis
from rlver.components.report.material import Material
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.portraits import Estimate, cell, opinions, quantity, series, shown_acts, steps_of
from rlver.components.report.tables import COUNT, NUMBER, PERCENT, SIGNED, Cell, Column, Form, Table
from rlver.components.report.wording import readable

_COLUMNS = 5
MOST_BANDS = 3  # more of them hide each other
_HABITS = (
    ("reply_words", "Words per reply", NUMBER),
    ("thought_words", "Words per thought", NUMBER),
    ("repeated_runs", "Repeated within a dialogue", PERCENT),
    ("stock_replies", "Said to another persona too", PERCENT),
    ("different_words", "Different words among 25", PERCENT),
)  # fmt: skip


class _Tracked(NamedTuple):
    """Its column, its heading, how it is written and so drawn, and where it lies in a portrait."""

    key: str
    heading: str
    form: Form
    path: Sequence[str]


class _Group(NamedTuple):
    """Quantities that make a table and a figure; `description`: what the figure is called for those who cannot see it."""

    name: str
    title: str
    description: str
    quantities: Sequence[_Tracked]


def _groups(material: Material) -> list[_Group]:
    acts = [(act, readable(act)) for act in shown_acts(material)]
    return [
        _Group(
            "acts-over-training",
            "Share of replies with each act",
            "Share of replies with each dialogue act over training steps",
            [_Tracked(act, name, PERCENT, ("acts", act, "frequency")) for act, name in acts],
        ),
        _Group(
            "changes-over-training",
            "Change of emotion after each act",
            "Mean change of emotion after each dialogue act over training steps",
            [_Tracked(act, name, SIGNED, ("acts", act, "contribution")) for act, name in acts],
        ),
        _Group(
            "habits-over-training",
            "Length, thoughts and repetition",
            "Length of replies and thoughts, repetition and diversity over training steps",
            [_Tracked(key, title, form, ("behaviour", key)) for key, title, form in _HABITS],
        ),
    ]


def appraisers_over_training(material: Material) -> ink.Drawn | None:
    """A plot a variant: the mean final emotion of held-out users by their own appraiser, and by one that paid nothing in training."""
    found = [(i, v.name, own, opinions(v, "second")) for i, v in material.numbered if (own := opinions(v, "own"))]
    if not found:
        return None
    with ink.small_plots(len(found), 2 if len(found) < 3 else 3, 2.5) as (figure, cells, _):
        for axes, (position, name, own, second) in zip(cells, found, strict=True):
            emotion_axis(axes)
            ink.without_grid(axes, "x")
            axes.set_title(name)
            axes.set_xlabel("Training step")
            colour = ink.series_style(position)["color"]
            _line(axes, own, {"color": colour, "linestyle": "-"}, "its own user", has_band=True)
            _line(axes, second, {"color": colour, "linestyle": (0, (3, 2))}, "the second appraiser", has_band=True)
    return ink.Drawn("appraisers-over-training", figure, "Mean final emotion over training steps in the eyes of two appraisers")


def portraits_over_training(material: Material, name: str) -> ink.Drawn | None:
    """The figure of a group, a small plot a quantity; None where nothing is known. Who is who stands in the first free cell."""
    group = next(group for group in _groups(material) if group.name == name)
    shown = [(one, known) for one in group.quantities if (known := series(material, one.path))]
    if not shown:
        return None
    with ink.small_plots(len(shown), min(_COLUMNS, len(shown)), 1.85) as (figure, cells, free):
        for axes, (tracked, known) in zip(cells, shown, strict=True):
            for one in known:
                _line(axes, one.points, ink.series_style(one.position), one.variant, has_band=len(known) <= MOST_BANDS)
            axes.set_title(tracked.heading, fontsize=8.5)
            axes.locator_params(axis="x", nbins=4, integer=True)
            ink.without_grid(axes, "x")
            _scale(axes, tracked.form)
        variants, fullest = max(((len(known), axes) for axes, (_, known) in zip(cells, shown, strict=True)), key=itemgetter(0))
        if variants > 1:
            _name_the_lines(figure, fullest, free)
    return ink.Drawn(name, figure, group.description)


def _line(axes: Axes, points: Sequence[tuple[int, Estimate]], style: dict[str, Any], label: str, has_band: bool) -> None:
    """A mark a checkpoint, joined; `has_band`: in a band of its intervals."""
    steps = [step for step, _ in points]
    if has_band and points:
        low, high = zip(*(one.ends or (one.value, one.value) for _, one in points), strict=True)
        axes.fill_between(steps, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.plot(steps, [one.value for _, one in points], **style, linewidth=1.4, marker="o", markersize=2.5, label=label)


def _scale(axes: Axes, form: Form) -> None:
    if form is SIGNED:
        axes.set_ylim(-10.5, 10.5)
        axes.set_yticks([-10, 0, 10], ["\u221210", "0", "+10"])
        axes.axhline(0, color=ink.MUTED, linewidth=0.7)
        return
    axes.set_ylim(0, max(0.25, axes.get_ylim()[1]) if form is PERCENT else None)
    axes.locator_params(axis="y", nbins=4)
    if form is PERCENT:
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")


def _name_the_lines(figure: Figure, fullest: Axes, free: Sequence[Axes]) -> None:
    handles, labels = fullest.get_legend_handles_labels()
    if free:
        free[0].legend(handles, labels, loc="center left")
    else:
        figure.legend(handles, labels, loc="outside lower left", ncols=6)


def tables(material: Material, _: ReportRun) -> Sequence[Table]:
    """A row a policy and checkpoint, a column a quantity."""
    if not any(steps_of(variant) for variant in material.variants):
        return []
    found = [_table(material, group) for group in _groups(material)]
    return [table for table in found if table.rows]


def _table(material: Material, group: _Group) -> Table:
    """Empty where none of the quantities is known."""
    quantities = (Column(one.key, one.heading, one.form, one.key) for one in group.quantities)
    columns = (Column("policy", "Policy"), Column("step", "Step", COUNT), *quantities)
    rows = [
        (Cell(variant.name), Cell(step), *(cell(quantity(portrayed, one.path)) for one in group.quantities))
        for variant in material.variants
        for step, portrayed in steps_of(variant)
    ]
    is_known = any(one.value is not None for row in rows for one in row[2:])
    return Table(group.name, f"Over training: {group.title[0].lower()}{group.title[1:]}", columns, tuple(rows) if is_known else ())


def values(material: Material, run: ReportRun) -> Mapping[str, Any] | None:
    found = tables(material, run)
    if not found:
        return None
    personas = {dialogue.persona_id for v in material.variants for held_out in v.checkpoints.values() for dialogue in held_out}
    return {"tables": found, "personas": len(personas), "most_bands": MOST_BANDS}


PANEL = Panel("over_training", "Over training", values, tables)
