"""Portraits side by side: a row for each quantity, a column for each file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlver.components.report.tables import plain_table
from rlver.components.report.wording import DASH
from rlver.components.scoring import intervals


def table(drawn: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for each quantity, a column for each file; what is unknown is a dash, and its reason stands below."""
    rows: dict[str, dict[str, str]] = {}
    reasons: dict[str, dict[str, None]] = {}
    for file, one in drawn.items():
        for name, quantity in _quantities(one):
            rows.setdefault(name, {})[file] = _cell(quantity)
            if "reason" in quantity:
                reasons.setdefault(quantity["reason"], {})[name] = None
    body = plain_table(["", *drawn], ((name, *(cells.get(file, DASH) for file in drawn)) for name, cells in rows.items()))
    notes = [f"–: {reason} ({', '.join(names)})" for reason, names in reasons.items()]
    return "\n".join([body, *(["", *notes] if notes else [])])


def _quantities(one: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    strategies = one.get("strategies", {})
    return [
        *one["capabilities"].items(),
        ("structured to creative", one["cognition"]["x"]),
        ("solution to emotion", one["cognition"]["y"]),
        *((f"{name}: {what}", used[what]) for name, used in strategies.items() for what in ("frequency", "contribution")),
        *one.get("acceptance", {}).items(),
        *one.get("behaviour", {}).items(),
    ]


def _cell(quantity: Mapping[str, Any]) -> str:
    if quantity["value"] is None:
        return DASH
    low, high = intervals.from_json(quantity["ci95"])
    return f"{quantity['value']:.2f} [{low:.2f}, {high:.2f}]"
