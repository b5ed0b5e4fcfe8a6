"""The dialogues: the same user before and after, and a browser for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlver.components.domain.transcript import Dialogue
from rlver.components.report import dialogues as views
from rlver.components.report import wording
from rlver.components.report.material import Material, Variant
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.tables import Cell, Column, Table

MOST_DIALOGUE_BYTES = 13_000_000  # of embedded dialogues, as they stand in the page, which stays under 15 MB


def tables(material: Material, _: ReportRun) -> Sequence[Table]:
    """The best, the median and the worst dialogue of every policy, by id."""
    columns = (
        Column("policy", "Policy"), Column("rank", "Rank"), Column("dialogue_id", "Dialogue"), Column("emotion_final", "Final emotion"),
    )  # fmt: skip
    rows = (
        (Cell(variant.name), Cell(label), Cell(dialogue.dialogue_id), Cell(dialogue.emotion_final))
        for variant in material.variants
        for label, dialogue in views.best_median_worst(variant.dialogues)
    )
    return [Table("extremes", "Best, median and worst dialogues", columns, tuple(rows))]


def values(material: Material, _: ReportRun) -> Mapping[str, Any]:
    shown = [_view(material, variant, dialogue) for variant in material.variants for dialogue in variant.dialogues]
    return {
        "pairs": _pairs(material),
        "base": material.base.name if material.base else "",
        "featured": material.featured.name if material.featured else "",
        "extremes": [
            (variant.name, [(label, dialogue.dialogue_id, dialogue.emotion_final) for label, dialogue in chosen])
            for variant in material.variants
            if (chosen := views.best_median_worst(variant.dialogues))
        ],
        "embedded": views.embed(shown, MOST_DIALOGUE_BYTES),
        "blank": views.DialogueView(),
        "blank_turn": views.TurnView(),
        "blank_evidence": views.EvidenceView(),
    }


def _pairs(material: Material) -> list[tuple[str, str, views.DialogueView, views.DialogueView]]:
    base, tuned = material.base, material.featured
    if base is None or tuned is None:
        return []
    return [
        (pair.label, wording.signed(pair.gain, 0), _view(material, base, pair.before), _view(material, tuned, pair.after))
        for pair in views.same_persona_pairs(base.dialogues, tuned.dialogues)
    ]


def _view(material: Material, variant: Variant, dialogue: Dialogue) -> views.DialogueView:
    return views.dialogue_view(variant.name, dialogue, material.classes.get(dialogue.persona_id))


PANEL = Panel("dialogues", "Dialogues", values, tables)
