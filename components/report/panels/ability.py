"""What else the policies can do: every task against the base, item by item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlver.components.report.material import Material
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.tables import COUNT, FINE, FINE_SIGNED, CapabilityTable, Cell, Column, Table, capability_tables
from rlver.components.report.wording import DASH

_COLUMNS = (
    Column("policy", "Policy"),
    Column("task", "Task"),
    Column("metric", "Metric"),
    Column("base", "Base", FINE),
    Column("tuned", "Tuned", FINE),
    Column("difference", "Difference", FINE_SIGNED, "one_sided95"),
    Column("margin", "Margin", FINE),
    Column("items", "Items", COUNT),
    Column("outcome", "Outcome"),
)
_NOTE = "Differences are turned so that more is better; bounds are one-sided, 95%."


def ability_table(compared: Sequence[CapabilityTable]) -> Table:
    rows = (
        (
            Cell(one.variant),
            Cell(task),
            Cell(row["metric"], remark="more is better" if row["higher_is_better"] else "less is better"),
            Cell(row["base"]),
            Cell(row["tuned"]),
            Cell(row["difference"], (row["lower95"], row["upper95"])),
            Cell(row["margin"]),
            Cell(row["n"]),
            Cell(row["outcome"]),
        )
        for one in compared
        for task, row in one.rows.items()
    )
    return Table("ability", "General ability", _COLUMNS, tuple(rows), _NOTE)


def _verdicts(compared: Sequence[CapabilityTable]) -> Table:
    """One row a policy: its outcome, and what to know about it."""
    columns = (Column("policy", "Policy"), Column("outcome", "Outcome"), Column("remark", "Remark"))
    return Table(
        "verdicts",
        "General ability: verdicts",
        columns,
        tuple((Cell(one.variant), Cell(one.outcome or DASH), Cell(_remark(one))) for one in compared),
    )


def _remark(one: CapabilityTable) -> str:
    remarks = [
        f"not compared: {one.problem}" if one.problem else "",
        "measured with benchmark.limit: a smoke test, which proves nothing either way" if one.is_smoke_test else "",
        f"measured on one side only: {', '.join(one.not_compared)}" if one.not_compared else "",
    ]
    return "; ".join(remark for remark in remarks if remark)


def tables(material: Material, run: ReportRun) -> Sequence[Table]:
    compared = capability_tables(material, run.margin)
    return [_verdicts(compared), ability_table(compared)] if compared else []


def values(material: Material, run: ReportRun) -> Mapping[str, Any] | None:
    if run.is_bare:
        return None
    compared = capability_tables(material, run.margin)
    return {"compared": compared, "table": ability_table(compared), "remarks": [(one.variant, _remark(one)) for one in compared]}


PANEL = Panel("ability", "General ability", values, tables)
