"""How an interval stands in a JSON file: {"lo": 1.5, "hi": 2.5}, since `dvc metrics show` and `diff` leave lists out.

Files of earlier versions, and those of studies, have [1.5, 2.5]; they are read as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from rlver.components.scoring.statistics import Interval


def to_json(interval: Interval) -> dict[str, float]:
    """Both ends, with six decimals: more than anyone reads, fewer than a change of summation order could touch."""
    return {"lo": round(interval.low, 6), "hi": round(interval.high, 6)}


def from_json(value: Any) -> Interval:
    """An interval in either form. Raises LookupError, TypeError or ValueError for anything else."""
    low, high = (value["lo"], value["hi"]) if isinstance(value, dict) else value
    return Interval(float(low), float(high))


def json_ready(value: Any, decimals: int = 6) -> Any:
    """JSON-ready, a dataclass by its fields: numbers are rounded, and None where they are not finite."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {name: json_ready(one, decimals) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(one, decimals) for one in value]
    if isinstance(value, float):
        return round(value, decimals) if math.isfinite(value) else None
    return value
