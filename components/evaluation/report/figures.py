"""All figures of a report by file name, in the order of the page. Each is a function of the material; None: there is nothing to draw."""

from __future__ import annotations

from collections.abc import Callable

from components.evaluation.report.curves import learning_curve, training_health
from components.evaluation.report.ink import Drawn
from components.evaluation.report.loading import Material
from components.evaluation.report.need_figures import need_bars, need_map
from components.evaluation.report.over_training_figures import (
    acts_over_training,
    appraisers_over_training,
    changes_over_training,
    habits_over_training,
)
from components.evaluation.report.trajectories import trajectories

FIGURES: dict[str, Callable[[Material], Drawn | None]] = {
    "need-map": need_map,
    "need-bars": need_bars,
    "trajectories": trajectories,
    "learning-curve": learning_curve,
    "training-health": training_health,
    "acts-over-training": acts_over_training,
    "changes-over-training": changes_over_training,
    "habits-over-training": habits_over_training,
    "appraisers-over-training": appraisers_over_training,
}
