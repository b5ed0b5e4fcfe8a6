"""Figures over training steps, where every step is drawn pale and the bold line is a running mean, so no peak is anybody's choice; and the
emotion over the turns of a dialogue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from rlver.components.domain.emotion import FAILURE, SUCCESS
from rlver.components.domain.transcript import Dialogue
from rlver.components.report import ink
from rlver.components.report.material import Curve, Material

_SMOOTHED_STEPS = 5
_LABEL_GAP = 6.0  # points of emotion between two names
_PANELS = (
    ("success_rate", "Success rate"),
    ("failure_rate", "Failure rate"),
    ("right_act_rate", "Right act after a cue"),
    ("one_act_rate", "The commonest act"),
    ("reply_tokens", "Tokens per reply"),
    ("entropy", "Entropy"),
    ("kl", "KL to the base"),
    ("grad_norm", "Gradient norm"),
)  # fmt: skip


def learning_curve(material: Material) -> ink.Drawn | None:
    """Mean final emotion over training steps: each step pale, a centred running mean bold, held-out personas as dots, names at the ends."""
    curves = [(i, v.name, v.training, v.held_out) for i, v in material.numbered if v.training or v.held_out]
    if not curves:
        return None
    ends: list[_End] = []
    with ink.drawing(ink.WIDTH, 3.6) as figure:
        axes = figure.subplots()
        for position, name, training, held_out in curves:
            style = ink.series_style(position)
            if held_out and "emotion_mean" in held_out.columns:
                values = held_out.columns["emotion_mean"]
                axes.plot(held_out.steps, values, color=style["color"], linestyle=":", linewidth=1, marker="o", markersize=4)
                ends.append(_End(name, style["color"], held_out.steps[-1], values[-1]))
            if training and "emotion_mean" in training.columns:
                means = _running_mean(training.columns["emotion_mean"])
                axes.plot(training.steps, training.columns["emotion_mean"], **style, linewidth=0.8, alpha=0.3)
                axes.plot(training.steps, means, **style, linewidth=1.8)
                ends = [*(end for end in ends if end.name != name), _End(name, style["color"], training.steps[-1], means[-1])]
        emotion_axis(axes)
        ink.without_grid(axes, "x")
        axes.set_ylabel("Mean final emotion")
        axes.set_xlabel("Training step")
        _name_the_ends(axes, ends)
    return ink.Drawn("learning-curve", figure, "Mean final emotion over training steps, on training and on held-out personas")


class _End(NamedTuple):
    """Where a curve ends: its name stands there."""

    name: str
    colour: str
    step: float
    emotion: float


def _name_the_ends(axes: Axes, ends: Sequence[_End]) -> None:
    """Names right of the last step, in the colours of their curves."""
    measured = sorted((end for end in ends if not math.isnan(end.emotion)), key=lambda end: end.emotion)
    last = max((end.step for end in measured), default=0.0)
    for end, height in zip(measured, apart([end.emotion for end in measured]), strict=True):
        axes.text(last + 0.012 * max(1.0, last), height, end.name, va="center", color=end.colour, fontweight="bold", clip_on=False)


def apart(rising: Sequence[float]) -> list[float]:
    """Heights of labels near those of their curves: each at least _LABEL_GAP above the one before, and none above 100 if they fit below."""
    heights: list[float] = []
    for emotion in rising:
        heights.append(max(emotion, heights[-1] + _LABEL_GAP if heights else -math.inf))
    highest = 100.0
    for index in reversed(range(len(heights))):
        heights[index] = min(heights[index], highest)
        highest = heights[index] - _LABEL_GAP
    return heights


def training_health(material: Material) -> ink.Drawn | None:
    """Small panels of everything else that was logged."""
    curves = [(i, v.training) for i, v in material.numbered if v.training]
    panels = [(key, title) for key, title in _PANELS if any(key in curve.columns for _, curve in curves)]
    if not panels:
        return None
    with ink.small_plots(len(panels), 4, 1.75) as (figure, cells, _):
        for axes, (key, title) in zip(cells, panels, strict=True):
            _small_panel(axes, key, title, curves)
    return ink.Drawn(
        "training-health", figure, "Success, failure, right acts, reply length and the optimiser's figures over training steps"
    )


def _small_panel(axes: Axes, key: str, title: str, curves: Sequence[tuple[int, Curve]]) -> None:
    for position, curve in curves:
        if key in curve.columns:
            style = ink.series_style(position)
            axes.plot(curve.steps, curve.columns[key], **style, linewidth=0.7, alpha=0.35)
            axes.plot(curve.steps, _running_mean(curve.columns[key]), **style, linewidth=1.4)
    axes.set_title(title, fontsize=8.5)
    axes.locator_params(axis="both", nbins=4)
    ink.without_grid(axes, "x")
    if key.endswith("_rate"):
        share_axis(axes)


def _running_mean(values: Sequence[float]) -> list[float]:
    """Centred mean over a few steps, shorter at the ends; NaN stays NaN and counts for nobody else."""
    half = _SMOOTHED_STEPS // 2
    means = []
    for index, value in enumerate(values):
        around = [other for other in values[max(0, index - half) : index + half + 1] if not math.isnan(other)]
        means.append(math.nan if math.isnan(value) else math.fsum(around) / len(around))
    return means


_LINES_SHOWN = 60  # single dialogues behind a median


def trajectories(material: Material) -> ink.Drawn | None:
    """The emotion over turns, one panel a variant. A dialogue that has ended keeps its last value, or only the unhappy would remain."""
    paths = [paths_of(variant.dialogues) for variant in material.variants]
    turns = max((len(path) for variant in paths for path in variant), default=1) - 1
    if turns < 1:
        return None
    columns = min(4, max(2, len(paths)))
    with ink.small_plots(len(paths), columns, 3.1 if columns == 2 else 2.3, shared=True) as (figure, cells, _):
        for position, (axes, (number, variant)) in enumerate(zip(cells, material.numbered, strict=True)):
            _trajectory_panel(axes, ink.series_style(number)["color"], paths[position], turns)
            axes.set_title(variant.name)
            if position + columns >= len(paths):  # nothing below it
                axes.set_xlabel("Turn")
                axes.tick_params(axis="x", labelbottom=True)
    return ink.Drawn(
        "trajectories", figure, "Emotion over the turns of a dialogue: median, middle half and middle four fifths, per variant"
    )


def _trajectory_panel(axes: Axes, colour: str, paths: Sequence[Sequence[int]], turns: int) -> None:
    emotion_axis(axes)
    axes.set_xticks(range(0, turns + 1, 2 if turns > 6 else 1))
    ink.without_grid(axes, "x")
    if not paths:
        return
    values = held(paths, turns)
    steps = np.arange(turns + 1)
    every = max(1, math.ceil(len(paths) / _LINES_SHOWN))
    for path in paths[::every]:
        axes.plot(range(len(path)), path, color=colour, linewidth=0.5, alpha=0.22)
    for outer, alpha in ((10, 0.12), (25, 0.22)):
        low, high = np.percentile(values, [outer, 100 - outer], axis=0)
        axes.fill_between(steps, low, high, color=colour, alpha=alpha, linewidth=0)
    axes.plot(steps, np.median(values, axis=0), color=colour, linewidth=2.2)


def held(paths: Sequence[Sequence[int]], turns: int) -> np.ndarray:
    """Dialogue by turn, 0 to `turns`, each path held at its last value."""
    return np.array([[*path, *[path[-1]] * (turns + 1 - len(path))] for path in paths], dtype=float)


def paths_of(dialogues: Sequence[Dialogue]) -> list[list[int]]:
    """Start and the emotion after each turn, of the dialogues that can be scored."""
    return [
        [dialogue.emotion_start, *(turn.emotion for turn in dialogue.turns if turn.emotion is not None)]
        for dialogue in dialogues
        if dialogue.emotion_final is not None
    ]


def share_axis(axes: Axes) -> None:
    """The y axis of a share."""
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.5, 1], ["0", "50%", "100%"])


def emotion_axis(axes: Axes) -> None:
    """The y axis of an emotion, with the bounds of success and failure dashed."""
    axes.set_ylim(0, 103)
    axes.set_yticks([0, 25, 50, 75, 100])
    for bound, colour in ((SUCCESS, ink.GOOD), (FAILURE, ink.BAD)):
        axes.axhline(bound, color=colour, linewidth=0.7, linestyle=(0, (4, 3)))
