"""Two appraisers over a training: the train simulator's score of the held-out dialogues, and that of an appraiser that paid nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.evaluation.audit.checks import Check, unknown
from components.evaluation.audit.opinions import Scores, SecondAppraiser, final_emotions, parting
from components.evaluation.checkpoints import Checkpoints
from components.evaluation.portrait.quantities import mean
from components.evaluation.reappraisal import UnreadableLanguage
from components.evaluation.statistics import Interval

_EMOTIONS = Interval(0.0, 100.0)


@dataclass(frozen=True)
class TwoSeries:
    """Final emotions by step and persona. `second` is None where nobody could appraise again, and `missing` says why."""

    own: Mapping[int, Scores]
    second: Mapping[int, Scores] | None
    missing: str = ""


def two_series(checkpoints: Checkpoints, second: SecondAppraiser) -> TwoSeries:
    """The scores of every checkpoint under both appraisers."""
    own = {step: final_emotions(dialogues) for step, dialogues in checkpoints.items()}
    if not own:
        return TwoSeries(own, None, "the held-out dialogues of the checkpoints were not kept")
    try:
        return TwoSeries(own, {step: second.finals(dialogues) for step, dialogues in checkpoints.items()})
    except UnreadableLanguage as error:
        return TwoSeries(own, None, str(error))


def parting_check(series: TwoSeries, share: float, limit: float, samples: int, seed: int) -> Check:
    """Unknown, with the reason, where one of the two series is missing."""
    if series.second is None:
        return unknown("parting", limit, f"two appraisers over training: {series.missing}")
    return parting(series.own, series.second, share, limit, samples, seed)


def means_by_step(series: TwoSeries, samples: int, seed: int) -> list[dict[str, Any]]:
    """JSON-ready: step, and the mean final emotion under either appraiser as {value, ci95, n} over personas."""
    none = "no dialogue of this step could be scored"
    return [
        {
            "step": step,
            "own": mean(scores, _EMOTIONS, samples, seed, none),
            "second": mean((series.second or {}).get(step, {}), _EMOTIONS, samples, seed, series.missing or none),
        }
        for step, scores in series.own.items()
    ]
