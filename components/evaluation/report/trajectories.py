"""The emotion over the turns of a dialogue."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from components.dialogue.transcript import Dialogue
from components.evaluation.report import ink
from components.evaluation.report.loading import Material
from components.evaluation.sentient import FAILURE, SUCCESS

_LINES_SHOWN = 60  # single dialogues behind a median


def trajectories(material: Material) -> ink.Drawn | None:
    """The emotion over turns, one panel a variant. A dialogue that has ended keeps its last value, or only the unhappy would remain."""
    paths = [paths_of(variant.dialogues) for variant in material.variants]
    turns = max((len(path) for variant in paths for path in variant), default=1) - 1
    if turns < 1:
        return None
    columns = min(4, max(2, len(paths)))
    rows = math.ceil(len(paths) / columns)
    with ink.drawing(ink.WIDTH, (3.1 if columns == 2 else 2.3) * rows) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat
        for axes in grid[len(paths) :]:
            axes.set_axis_off()
        for position, (axes, (number, variant)) in enumerate(zip(grid[: len(paths)], material.numbered, strict=True)):
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


def emotion_axis(axes: Axes) -> None:
    """The y axis of an emotion, with the bounds of success and failure dashed."""
    axes.set_ylim(0, 103)
    axes.set_yticks([0, 25, 50, 75, 100])
    for bound, colour in ((SUCCESS, ink.GOOD), (FAILURE, ink.BAD)):
        axes.axhline(bound, color=colour, linewidth=0.7, linestyle=(0, (4, 3)))
