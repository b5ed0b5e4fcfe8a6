"""The `portrait` of a policy in metrics/<variant>/sentient.json, read leniently: what is there is taken, what is not is left out.

capabilities  {name: {value, ci95, n}}       1 to 5
cognition     {x: {value, ci95}, y: …}       structured (-5) to creative (+5); solution (-5) to emotion (+5)
behaviour     {name: {value, ci95}}
strategies    {act: {quantity: {value, ci95}}}
any text beside these says how it was measured
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from components.evaluation.report.loading import Variant
from components.evaluation.report.table import Ends, ends


class Estimate(NamedTuple):
    value: float
    ends: Ends | None


def portrait(variant: Variant) -> Mapping[str, Any]:
    """The portrait, or an empty one."""
    found = (variant.sentient or {}).get("portrait")
    return found if isinstance(found, Mapping) else {}


def estimate(value: Any) -> Estimate | None:
    """{"value": 3.1, "ci95": [2.9, 3.3]} or a plain number; None for anything else, and for a value of null."""
    number, interval = (value.get("value"), value.get("ci95")) if isinstance(value, Mapping) else (value, None)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    return Estimate(float(number), ends(interval) if isinstance(interval, (list, tuple)) and len(interval) == 2 else None)


def estimates(of: Any) -> dict[str, Estimate]:
    """The estimates of a part of the portrait by name, in its order."""
    named = of.items() if isinstance(of, Mapping) else ()
    return {str(name): one for name, value in named if (one := estimate(value)) is not None}


def remarks(variant: Variant) -> dict[str, str]:
    """How the parts were measured: the texts beside the numbers, and the `method` of a part or of its quantities."""
    found = {name: value for name, value in portrait(variant).items() if isinstance(value, str)}
    parts = {name: part for name, part in portrait(variant).items() if estimates(part)}
    for name, part in parts.items():
        ways = {str(one["method"]) for one in (part, *part.values()) if isinstance(one, Mapping) and "method" in one}
        found |= {name: ", ".join(sorted(ways))} if ways else {}
    return found
