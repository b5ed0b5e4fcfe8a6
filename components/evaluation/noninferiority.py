"""Non-inferiority: evidence that a tuned policy is not worse than its base by more than a margin set beforehand.

"Not significantly worse" proves nothing, so there are three outcomes. With d = tuned - base, larger being better:
pass: H0 "d <= -margin" is rejected, that is, the one-sided 95% lower bound of d lies above -margin;
fail: H0 "d >= -margin" is rejected, that is, the one-sided 95% upper bound of d lies below -margin;
inconclusive: neither. The observed difference alone never decides. Both families are Holm-adjusted over the tasks compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from components.evaluation.statistics import Paired, holm, p_above, quantile

ALPHA = 0.05
FEWEST_ITEMS = 30  # below, an all-equal sample and a skewed one prove nothing


class Outcome(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class NonInferiority:
    """One task's verdict. Bounds are one-sided 95% bounds, not adjusted; p-values are, and they decide."""

    outcome: Outcome
    difference: float
    lower: float
    upper: float
    p_not_worse: float  # adjusted p of H0 "worse by the margin or more": small means pass
    p_worse: float  # adjusted p of H0 "not worse by more than the margin": small means fail
    n: int


def non_inferiority(paired: Mapping[str, Paired], margins: Mapping[str, float]) -> dict[str, NonInferiority]:
    """Verdict per task for paired differences (larger is better) and positive margins in the task's own unit.

    Raises ValueError for a margin that is not positive.
    """
    for name in paired:
        if not margins[name] > 0:
            raise ValueError(f"{name}: a non-inferiority margin must be positive, got {margins[name]}")
    not_worse = holm({name: p_above(one, -margins[name]) for name, one in paired.items()})
    worse = holm({name: 1 - p_above(one, -margins[name]) for name, one in paired.items()})
    return {
        name: NonInferiority(
            outcome=_outcome(one, not_worse[name], worse[name]),
            difference=one.difference,
            lower=one.difference - quantile(1 - ALPHA, one.freedom) * one.standard_error,
            upper=one.difference + quantile(1 - ALPHA, one.freedom) * one.standard_error,
            p_not_worse=not_worse[name],
            p_worse=worse[name],
            n=one.n,
        )
        for name, one in paired.items()
    }


def _outcome(paired: Paired, p_not_worse: float, p_worse: float) -> Outcome:
    if paired.n < FEWEST_ITEMS:
        return Outcome.INCONCLUSIVE
    if p_not_worse <= ALPHA:
        return Outcome.PASS
    return Outcome.FAIL if p_worse <= ALPHA else Outcome.INCONCLUSIVE
