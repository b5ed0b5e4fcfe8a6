"""How users feel at the end, one row a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

from rlver.components.report.material import Material, Variant
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.tables import COUNT, NUMBER, PERCENT, SIGNED, Cell, Column, Table, ends
from rlver.components.report.wording import ROWS, SOURCE
from rlver.components.scoring import splits

_MEASURED = (
    Column("emotion_mean", "Score", NUMBER, "emotion_ci95"),
    Column("difference", "Difference to base", SIGNED, "difference_ci95"),
    Column("success_rate", "Success", PERCENT, "success_ci95"),
    Column("failure_rate", "Failure", PERCENT, "failure_ci95"),
    Column("right_act_by_turn", "Right act by turn", PERCENT, "right_act_by_turn_ci95"),
    Column("turns_mean", "Turns", NUMBER, "turns_ci95"),
    Column("reply_tokens_mean", "Reply tokens", NUMBER, "reply_tokens_ci95"),
    Column("think_tokens_mean", "Think tokens", NUMBER, "think_tokens_ci95"),
)
_COLUMNS = (
    Column("policy", "Policy"),
    *_MEASURED,
    Column("personas", "Personas"),
    Column("n", "Dialogues", COUNT),
    Column("failed", "Unscorable", COUNT),
)
_PUBLISHED = tuple(column for column in _COLUMNS if column.key in ("policy", "emotion_mean", "success_rate", "failure_rate"))


def results_table(material: Material) -> Table:
    """One row per variant, in the material's order; a variant that was not scored has a row of dashes. A column nobody filled is left out, and that of
    the unscorable dialogues where there are none."""
    failed = [sum(dialogue.emotion_final is None for dialogue in variant.dialogues) for variant in material.variants]
    rows = [(*_row(variant), Cell(own if any(failed) else None)) for variant, own in zip(material.variants, failed, strict=True)]
    filled = [any(cell.value is not None for cell in cells) for cells in zip(*rows, strict=True)]
    return Table("results", "Results", tuple(compress(_COLUMNS, filled)), tuple(tuple(compress(row, filled)) for row in rows))


def published_table() -> Table:
    """The rows of the RLVER paper, which have no intervals."""
    rows = ((Cell(row.name), Cell(row.emotion_mean), Cell(row.success_rate), Cell(row.failure_rate)) for row in ROWS)
    return Table("published", "Published", _PUBLISHED, tuple(rows), f"For the shape, not the level: RLVER paper, Table 1 ({SOURCE}).")


def _row(variant: Variant) -> tuple[Cell, ...]:
    metrics = variant.sentient or {}
    paired = metrics.get("paired_to_base") or {}
    known = {**metrics, "difference": paired.get("difference"), "difference_ci95": paired.get("ci95")}
    return (
        Cell(variant.name),
        *(Cell(known.get(column.key), ends(known.get(column.ends_key or ""))) for column in _MEASURED),
        Cell(splits.said(splits.persona_splits(variant.dialogues))),
        Cell(len(variant.dialogues)),
    )


def tables(material: Material, run: ReportRun) -> Sequence[Table]:
    return [results_table(material), *([] if run.is_bare else [published_table()])]


def values(material: Material, run: ReportRun) -> Mapping[str, Any]:
    return {
        "table": results_table(material),
        "published": None if run.is_bare else published_table(),
        "unscored": [variant.name for variant in material.variants if variant.sentient is None],
        "is_bare": run.is_bare,
        "units": sorted({str(v.sentient["interval_unit"]) for v in material.variants if v.sentient and "interval_unit" in v.sentient}),
        "mixtures": [f"{v.name}: {warning}" for v in material.variants if (warning := splits.mixture(splits.persona_splits(v.dialogues)))],
        "users": [f"{tag.kind}, {tag.difficulty}, version {tag.version}" for tag in material.simulators],
    }


PANEL = Panel("results", "Results", values, tables)
