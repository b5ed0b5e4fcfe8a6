"""How users feel by what they came for, and by what kind of person they are: need × variant, the fuller a cell the higher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlver.components.report import tables as metrics
from rlver.components.report.material import Material
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.tables import NUMBER, PERCENT, Cell, Column, Form, Table, ends
from rlver.components.report.wording import readable


class _Map(NamedTuple):
    """A table that is also coloured: a cell is full at `whole`."""

    table: Table
    whole: float


class _Quantity(NamedTuple):
    key: str
    ends_key: str | None
    form: Form
    whole: float
    title: str


_EMOTION = _Quantity("emotion_mean", "emotion_ci95", NUMBER, 100.0, "Mean final emotion")
_RIGHT_ACT = _Quantity("right_act_by_turn", "right_act_by_turn_ci95", PERCENT, 1.0, "Right act after a hint, by turn")


def maps(material: Material) -> list[_Map]:
    """Emotion by need, right acts by need, emotion by class: those of which anything is known beyond one group."""
    found = (
        _map(material, "needs", "by_need", _EMOTION, "by need"),
        _map(material, "right-acts", "by_need", _RIGHT_ACT, "by need"),
        _map(material, "classes", "by_class", _EMOTION, "by kind of person"),
    )
    return [one for one in found if one is not None]


def _map(material: Material, name: str, grouping: str, quantity: _Quantity, over: str) -> _Map | None:
    groups = [group for group in metrics.group_names(material, grouping) if group != "unknown"]
    rows = tuple(
        (
            Cell(variant.name),
            *(
                Cell(
                    metrics.group_value(variant, grouping, group, quantity.key),
                    ends(metrics.group_value(variant, grouping, group, quantity.ends_key)) if quantity.ends_key else None,
                )
                for group in groups
            ),
        )
        for variant in material.variants
    )
    if not any(cell.value is not None for row in rows for cell in row[1:]):
        return None
    columns = (
        Column("policy", "Policy"),
        *(Column(group, readable(group), quantity.form, group if quantity.ends_key else None) for group in groups),
    )
    return _Map(Table(name, f"{quantity.title} {over}", columns, rows), quantity.whole)


def tables(material: Material, _: ReportRun) -> Sequence[Table]:
    return [one.table for one in maps(material)]


def values(material: Material, _: ReportRun) -> Mapping[str, Any] | None:
    found = maps(material)
    return {"maps": found} if found else None


PANEL = Panel("needs", "Needs", values, tables)
