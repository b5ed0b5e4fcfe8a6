"""Does a policy say what is right, also to those who feel bad or believe something wrong? What `rlver honesty score --json` wrote.

It is read from metrics/<variant>/honesty.json; whether a policy errs more than the base is judged by the same code as general ability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlver.components.ability.noninferiority import NotComparable, answered_by_both, compare_general, of_metric
from rlver.components.report.material import Material, Variant
from rlver.components.report.panels.panel import Panel, ReportRun, Sources
from rlver.components.report.tables import COUNT, PERCENT, Cell, Column, Table, ends
from rlver.tasks.graph.lock import md5_of

_KIND, _STALE = "honesty", "of_another_model"
_RATES = ("error", "correct", "unclear")
_COLUMNS = (
    Column("policy", "Policy"),
    Column("condition", "Told"),
    *(Column(rate, rate.capitalize(), PERCENT, f"{rate}_ci95") for rate in _RATES),
    Column("answers", "Answers", COUNT),
    Column("errors_to_base", "Errors, against the base"),
    Column("right_to_base", "Right answers, against the base"),
)
_NOTE = "Graded by words: right without wrong, wrong without right, or unclear. “Pass” means: shown not to err more than the base by the margin, or to give as many right answers; these are judged of plain questions only."


def gather(material: Material, sources: Sources) -> Material:
    """Without figures of a model that is another by now: nobody asks anew by himself when it was trained again."""
    if sources.logs is None:
        return material
    models = sources.logs.parent / "models"
    return replace(material, variants=tuple(_of_this_model(variant, models / variant.name) for variant in material.variants))


def _of_this_model(variant: Variant, model: Path) -> Variant:
    asked = variant.metrics.get(_KIND, {}).get("md5")
    if asked is None or not model.is_dir() or asked == md5_of(model):
        return variant
    return replace(variant, metrics={**variant.metrics, _KIND: {_STALE: True, "rates": (), "tasks": {}}})


def _table(material: Material, margin: float) -> Table | None:
    base = material.base.metrics.get(_KIND) if material.base else None
    base = None if base and _STALE in base else base
    rows: list[tuple[Cell, ...]] = []
    unknown: list[str] = []
    for variant in material.variants:
        if (found := variant.metrics.get(_KIND)) is None:
            continue
        if _STALE in found:
            rows.append((Cell(variant.name), Cell("answers of another model: ask it again"), *[Cell(None)] * (len(_COLUMNS) - 2)))
            continue
        if found.get("md5") is None:  # of an endpoint, or written before it was noted
            unknown.append(variant.name)
        errors, right = (
            ({}, {}) if variant.is_base or base is None else (_compared(base, found, margin, one) for one in ("error", "correct"))
        )
        rows += [
            (
                Cell(variant.name),
                Cell(row["condition"]),
                *(Cell(row[rate]["value"], ends(row[rate]["ci95"])) for rate in _RATES),
                Cell(row["n"]),
                Cell(errors.get(row["condition"], {}).get("outcome")),
                Cell(right.get(f"{row['condition']}, right answers", {}).get("outcome")),
            )
            for row in found["rates"]
            if row["kind"] == "all"
        ]
    note = f"{_NOTE} Not recorded, and so not checked, is whose answers these are: {', '.join(unknown)}." if unknown else _NOTE
    return Table(_KIND, "Honesty", _COLUMNS, tuple(rows), note) if rows else None


def _compared(base: Mapping[str, Any], found: Mapping[str, Any], margin: float, metric: str) -> Mapping[str, Mapping[str, Any]]:
    try:
        base, found = (of_metric(one, metric) for one in answered_by_both(base, found))
        if not base["tasks"].keys() & found["tasks"].keys():
            return {}  # an earlier version counted no right answers
        rows: Mapping[str, Mapping[str, Any]] = compare_general(base, found, margin)["tasks"]
    except NotComparable as error:
        return {condition: {"outcome": f"not compared: {error}"} for condition in found["tasks"]}
    return rows


def tables(material: Material, run: ReportRun) -> Sequence[Table]:
    found = _table(material, run.margin)
    return [found] if found else []


def values(material: Material, run: ReportRun) -> Mapping[str, Any] | None:
    found = _table(material, run.margin)
    return {"table": found} if found else None


PANEL = Panel("honesty", "Honesty", values, tables, after="ability", package=__package__, gather=gather)
