"""Learning curves, for policies whose training logs lie beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlver.components.report.material import Material
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.tables import COUNT, NUMBER, PERCENT, Cell, Column, Table

_COLUMNS = (
    Column("policy", "Policy"),
    Column("step", "Step", COUNT),
    Column("emotion_mean", "Held-out emotion", NUMBER),
    Column("success_rate", "Success", PERCENT),
    Column("failure_rate", "Failure", PERCENT),
)


def tables(material: Material, _: ReportRun) -> Sequence[Table]:
    """What was measured on held-out personas during training; a single measurement has no interval in the logs."""
    rows = []
    for variant in material.variants:
        if curve := variant.held_out:
            for index, step in enumerate(curve.steps):
                values = (curve.columns[column.key][index] if column.key in curve.columns else None for column in _COLUMNS[2:])
                rows.append((Cell(variant.name), Cell(step), *(Cell(None if value != value else value) for value in values)))
    return [Table("learning", "Learning: held-out personas", _COLUMNS, tuple(rows))] if rows else []


def values(material: Material, _: ReportRun) -> Mapping[str, Any] | None:
    logged = any(variant.training or variant.held_out for variant in material.variants)
    return {} if logged else None


PANEL = Panel("learning", "Learning", values, tables)
