"""Who felt for the users, where that was learned from recordings: from whom, and how far it agrees with users that it did not learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlver.components.report.material import Material, Variant
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.tables import COUNT, FINE, NUMBER, Cell, Column, Table, ends
from rlver.components.users.distilled.folder import CARD, fidelity_of, folder_of

CARD_FILES = (f"{CARD}.json", f"{CARD}.md")
_FIGURES = (
    Column("teacher_forced_r", "r per reply, told the emotion", FINE, "teacher_forced_r_ci95"),
    Column("teacher_forced_sign_accuracy", "Right direction, told the emotion", FINE, "teacher_forced_sign_accuracy_ci95"),
    Column("free_running_r", "r per reply", FINE, "free_running_r_ci95"),
    Column("free_running_dialogue_r", "r per dialogue", FINE, "free_running_dialogue_r_ci95"),
    Column("free_running_final_r", "r of the final emotion", FINE, "free_running_final_r_ci95"),
    Column("free_running_final_mae", "Points by which it is wrong", NUMBER, "free_running_final_mae_ci95"),
)
_COLUMNS = (Column("policy", "Policy"), Column("appraiser", "Appraiser"), Column("learned_from", "Learned from, dialogues", COUNT),
            Column("held_out_dialogues", "Held out, dialogues", COUNT), *_FIGURES)  # fmt: skip


def _learned(material: Material) -> list[tuple[Variant, Mapping[str, Any] | None]]:
    """The policies that a distilled appraiser judged; the card is None where it is not that appraiser's."""
    card = material.shared.get("appraiser")
    found = []
    for variant in material.variants:
        tags = [dialogue.simulator for dialogue in variant.dialogues if dialogue.simulator.kind.startswith("distilled")]
        if tags:
            is_its_own = card is not None and all(f"appraiser={card['digest']}" in tag.version.split() for tag in tags)
            found.append((variant, card if is_its_own else None))
    return found


def tables(material: Material, _: ReportRun) -> Sequence[Table]:
    rows = tuple(
        (
            Cell(variant.name),
            Cell(f"distilled {card['digest']}"),
            Cell(card["learned_from"]["dialogues"]),
            Cell(card["held_out_dialogues"]),
            *(Cell(card[column.key], ends(card[f"{column.key}_ci95"])) for column in _FIGURES),
        )
        for variant, card in _learned(material)
        if card is not None
    )
    return [Table("appraiser", "The appraiser's agreement with recorded users", _COLUMNS, rows)] if rows else []


def values(material: Material, run: ReportRun) -> Mapping[str, Any] | None:
    learned = _learned(material)
    if not learned:
        return None
    return {
        "tables": tables(material, run),
        "card": material.shared.get("appraiser"),
        "bare": [variant.name for variant, card in learned if card is None],
    }


PANEL = Panel("appraiser", "Appraiser", values, tables)


def with_card(material: Material, named: str | None) -> Material:
    """The material of a report with the card of `simulator.appraiser`, if that is a distilled one. Raises BadFile."""
    is_distilled = named is not None and named.startswith("distilled:")
    return replace(material, shared={**material.shared, "appraiser": fidelity_of(folder_of(named))}) if named and is_distilled else material
