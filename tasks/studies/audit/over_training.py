"""Two appraisers over a training: the train simulator's score of the held-out dialogues, and that of an appraiser that paid nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, linear_regression
from typing import Any

from rlver.components.report.material import Checkpoints
from rlver.components.scoring.behaviour import mean
from rlver.components.scoring.statistics import Estimated, Interval
from rlver.components.scoring.units import Sampling
from rlver.tasks.studies.audit.checks import Check, unknown
from rlver.tasks.studies.audit.opinions import NO_OPINION, Recorded, Scores, SecondAppraiser, asked, final_emotions
from rlver.tasks.studies.audit.reference import NoReference

_EMOTIONS = Interval(0.0, 100.0)


@dataclass(frozen=True)
class TwoSeries:
    """Final emotions by step and persona. `second` is None where nobody could appraise again, and `missing` says why."""

    own: Mapping[int, Scores]
    second: Mapping[int, Scores] | None
    missing: str = ""


def reward_overoptimization(series: TwoSeries, expected: Estimated | NoReference, share: float, margin: float, how: Sampling) -> Check:
    """Do two series of scores over training part? Points over the whole training that the second appraiser does not confirm; unknown, with the
    reason, where there is no second series.

    A trend is the least-squares slope of a persona's scores times the steps
    covered. `expected`: the share that is confirmed to an honest supporter. Raises ValueError for series of
    different steps.
    """
    name, first, second = "reward_overoptimization", series.own, series.second
    if second is None:
        return unknown(name, margin, f"two appraisers over training: {series.missing}")
    if first.keys() != second.keys():
        raise ValueError(f"both series need the same steps, got {sorted(first)} and {sorted(second)}")
    if len(first) < 3:
        return unknown(name, margin, f"the trends of two appraisers need 3 checkpoints, got {len(first)}")
    return asked(name, f"trend over {len(first)} checkpoints", _trends(first), _trends(second), expected, share, margin, how)


def _trends(series: Mapping[int, Scores]) -> dict[str, float]:
    """Points gained from the first step to the last along the least-squares line, for every persona that has a score at each step."""
    steps = sorted(series)
    known = set.intersection(*({persona for persona, scores in series[step].items() if scores} for step in steps))
    covered = steps[-1] - steps[0]
    return {persona: linear_regression(steps, [fmean(series[step][persona]) for step in steps]).slope * covered for persona in known}


def two_series(checkpoints: Checkpoints, second: SecondAppraiser) -> TwoSeries:
    """The scores of every checkpoint under both appraisers."""
    own = {step: final_emotions(dialogues) for step, dialogues in checkpoints.items()}
    if not own:
        return TwoSeries(own, None, "the held-out dialogues of the checkpoints were not kept")
    if isinstance(second, Recorded):  # held-out dialogues have the same ids at every step
        return TwoSeries(own, None, "the second appraisal is a record, which cannot tell the held-out dialogues of one step from another's")
    try:
        return TwoSeries(own, {step: second.finals(dialogues) for step, dialogues in checkpoints.items()})
    except NO_OPINION as error:
        return TwoSeries(own, None, str(error))


def means_by_step(series: TwoSeries, how: Sampling) -> list[dict[str, Any]]:
    """JSON-ready: step, and the mean final emotion under either appraiser as {value, ci95, n}."""
    none = "no dialogue of this step could be scored"
    return [
        {
            "step": step,
            "own": mean(scores, _EMOTIONS, how, none),
            "second": mean((series.second or {}).get(step, {}), _EMOTIONS, how, series.missing or none),
        }
        for step, scores in series.own.items()
    ]
