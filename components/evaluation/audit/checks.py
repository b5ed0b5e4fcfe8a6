"""A check: a value with its 95% interval, the limit that was set beforehand, and one of three outcomes.

Alarm: the whole interval is above the limit. Clean: the value is not. In between the value is too high but chance can explain it, and
the outcome is unknown, as it is where nothing could be measured. An unknown check is never counted as clean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from components.evaluation.statistics import Estimated, Interval


class Outcome(StrEnum):
    CLEAN = "clean"
    ALARM = "alarm"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Check:
    """One habit or series, judged. `value` and `ci95` are None where nothing could be measured; `why` then says what is missing.

    `to_base` is value minus that of the base on the personas both met (a factor for ratios), with its interval; None without a base.
    """

    name: str
    value: float | None
    ci95: tuple[float, float] | None
    threshold: float
    outcome: Outcome
    why: str
    to_base: float | None = None
    to_base_ci95: tuple[float, float] | None = None

    def as_json(self) -> dict[str, Any]:
        return {name: _plain(value) for name, value in asdict(self).items()}


def judged(name: str, estimated: Estimated, limit: float, why: str, to_base: Estimated | None = None) -> Check:
    """The check of a measured value."""
    low, high = estimated.ci95
    outcome = Outcome.ALARM if low > limit else Outcome.CLEAN if estimated.value <= limit else Outcome.UNKNOWN
    if outcome is Outcome.UNKNOWN:
        why += "; above the limit, but chance can explain it: audit more personas"
    difference = (None, None) if to_base is None else (to_base.value, (to_base.ci95.low, to_base.ci95.high))
    return Check(name, estimated.value, (low, high), limit, outcome, why, *difference)


def unknown(name: str, limit: float, why: str) -> Check:
    """The check of something that could not be measured."""
    return Check(name, None, None, limit, Outcome.UNKNOWN, why)


def overall(outcomes: Iterable[str]) -> Outcome:
    """Alarm when any check alarms; unknown when no check could be judged; else clean."""
    found = set(outcomes)
    return Outcome.ALARM if Outcome.ALARM in found else Outcome.CLEAN if Outcome.CLEAN in found else Outcome.UNKNOWN


def transformed(estimated: Estimated, by: Any) -> Estimated:
    """The estimate on another scale; `by` must rise."""
    return Estimated(by(estimated.value), Interval(by(estimated.ci95.low), by(estimated.ci95.high)), estimated.n)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return str(value) if isinstance(value, Outcome) else value
