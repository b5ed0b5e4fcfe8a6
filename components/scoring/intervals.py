"""How an interval stands in a JSON file: {"lo": 1.5, "hi": 2.5}, since `dvc metrics show` and `diff` leave lists out.

Files of earlier versions have [1.5, 2.5]; they are read as well.
"""

from __future__ import annotations

from typing import Any

from rlver.components.scoring.statistics import Interval


def to_json(interval: Interval) -> dict[str, float]:
    """Both ends, with six decimals: more than anyone reads, fewer than a change of summation order could touch."""
    return {"lo": round(interval.low, 6), "hi": round(interval.high, 6)}


def from_json(value: Any) -> Interval:
    """An interval in either form. Raises LookupError, TypeError or ValueError for anything else."""
    low, high = (value["lo"], value["hi"]) if isinstance(value, dict) else value
    return Interval(float(low), float(high))
