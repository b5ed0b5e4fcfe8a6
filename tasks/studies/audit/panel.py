"""Is the score earned or gamed? The audit of every policy: a verdict each, and every check with its value, limit and base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlver.components.report.material import Material, Variant
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.portraits import opinions
from rlver.components.report.tables import COUNT, FINE, FINE_SIGNED, NUMBER, Cell, Column, Ends, Table
from rlver.components.report.wording import DASH, readable
from rlver.tasks.studies.audit.audit import with_audits
from rlver.tasks.studies.audit.summary import reference_in_words

_COLUMNS = (
    Column("check", "Check"),
    Column("policy", "Policy"),
    Column("value", "Value", FINE, "ci95"),
    Column("limit", "Limit", FINE),
    Column("to_base", "Against the base", FINE_SIGNED, "to_base_ci95"),
    Column("reference", "Honest, same score", FINE, "reference_ci95"),
    Column("outcome", "Outcome"),
)
_NOTE = "An alarm: the whole interval is above the limit (for Unconfirmed gain and Reward overoptimization: above 0, and not wholly below the limit). Growth is a factor, also against the base; everything else is a share or points. What an honest supporter with the same score has stands beside it."


def _audits(material: Material) -> list[tuple[Variant, Mapping[str, Any]]]:
    return [(variant, audit) for variant in material.variants if (audit := variant.metrics.get("audit")) is not None]


def audit_table(material: Material) -> Table:
    """A row a check and policy, the checks of one kind together."""
    found = [(check["name"], variant.name, check) for variant, audit in _audits(material) for check in audit["checks"]]
    order = list(dict.fromkeys(name for name, _, _ in found))
    rows = (
        (
            Cell(readable(name)),
            Cell(policy),
            Cell(check["value"], _ends(check["ci95"])),
            Cell(check["threshold"]),
            Cell(check["to_base"], _ends(check["to_base_ci95"])),
            Cell(check["reference"], _ends(check["reference_ci95"])),
            Cell(check["outcome"]),
        )
        for name, policy, check in sorted(found, key=lambda one: order.index(one[0]))
    )
    return Table("audit", "Audit: is the score earned or gamed?", _COLUMNS, tuple(rows), _NOTE)


def _verdicts(material: Material) -> Table:
    columns = (Column("policy", "Policy"), Column("outcome", "Outcome"), Column("alarms", "Alarms"), Column("unknown", "Not judged"))
    rows = (
        (Cell(variant.name), Cell(audit["outcome"]), Cell(_named(audit, "alarm")), Cell(_not_judged(audit)))
        for variant, audit in _audits(material)
    )
    return Table("audit-verdicts", "Audit: verdicts", columns, tuple(rows))


def _appraisers(material: Material) -> list[Table]:
    """A row a policy and checkpoint: the held-out users' mean final emotion in the eyes of two appraisers."""
    columns = (
        Column("policy", "Policy"),
        Column("step", "Step", COUNT),
        Column("own", "Its own user", NUMBER, "own"),
        Column("second", "Second appraiser", NUMBER, "second"),
    )
    rows = []
    for variant in material.variants:
        second = dict(opinions(variant, "second"))
        for step, own in opinions(variant, "own"):
            rows.append((Cell(variant.name), Cell(step), Cell(*own), Cell(*second.get(step, (None, None)))))
    return [Table("appraisers-over-training", "Two appraisers over training", columns, tuple(rows))] if rows else []


def _named(audit: Mapping[str, Any], outcome: str) -> str:
    return ", ".join(readable(check["name"]) for check in audit["checks"] if check["outcome"] == outcome) or DASH


def _not_judged(audit: Mapping[str, Any]) -> str:
    return "; ".join(part for part in (audit["why"], _named(audit, "unknown")) if part not in ("", DASH)) or DASH


def _reasons(audits: Sequence[tuple[Variant, Mapping[str, Any]]]) -> Mapping[str, list[str]]:
    """What each check is, or why it was not judged; where policies differ, a line for each reason with whose it is."""
    found: dict[str, dict[str, list[str]]] = {}
    for variant, audit in audits:
        for check in audit["checks"]:
            found.setdefault(readable(check["name"]), {}).setdefault(check["why"], []).append(variant.name)
    return {
        name: list(whys) if len(whys) == 1 else [f"{', '.join(policies)}: {why}" for why, policies in whys.items()]
        for name, whys in found.items()
    }


def _ends(pair: Sequence[float | None] | None) -> Ends | None:
    """None for an interval that is open at an end, too."""
    return None if pair is None or pair[0] is None or pair[1] is None else (pair[0], pair[1])


def tables(material: Material, _: ReportRun) -> Sequence[Table]:
    return [_verdicts(material), *_appraisers(material), audit_table(material)] if _audits(material) else []


def values(material: Material, _: ReportRun) -> Mapping[str, Any] | None:
    audits = _audits(material)
    if not audits:
        return None
    return {
        "verdicts": [(variant.name, audit["outcome"], _named(audit, "alarm"), _not_judged(audit)) for variant, audit in audits],
        "reasons": _reasons(audits),
        "seconds": ", ".join(sorted({str(audit["second_appraiser"]) for _, audit in audits})),
        "honest": [(variant.name, reference_in_words(audit["reference"])) for variant, audit in audits],
        "table": audit_table(material),
        "appraisers": _appraisers(material),
    }


PANEL = Panel("audit", "Audit", values, tables, after="appraiser", package=__package__, gather=with_audits)
