"""Who felt for the users, where that was learned from recordings: from whom, and how far it agrees with users that it did not learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.evaluation.report.loading import Material
from components.evaluation.report.panels.panel import Panel, Run
from components.evaluation.report.table import COUNT, FINE, NUMBER, Cell, Column, Table, ends

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


def _cards(material: Material) -> list[tuple[str, Mapping[str, Any]]]:
    """(policy, card) where the score carries one."""
    return [(one.name, card) for one in material.variants if one.sentient is not None and (card := one.sentient.get("appraiser"))]


def _table(cards: Sequence[tuple[str, Mapping[str, Any]]]) -> Table:
    rows = (
        (
            Cell(policy),
            Cell(f"distilled {card['digest']}"),
            Cell(card["learned_from"]["dialogues"]),
            Cell(card["held_out_dialogues"]),
            *(Cell(card[column.key], ends(card[f"{column.key}_ci95"])) for column in _FIGURES),
        )
        for policy, card in cards
    )
    return Table("appraiser", "The appraiser's agreement with recorded users", _COLUMNS, tuple(rows))


def tables(material: Material, _: Run) -> Sequence[Table]:
    cards = _cards(material)
    return [_table(cards)] if cards else []


def values(material: Material, _: Run) -> Mapping[str, Any] | None:
    cards = _cards(material)
    carded = {policy for policy, _ in cards}
    bare = [
        one.name
        for one in material.variants
        if one.name not in carded and any(dialogue.simulator.kind.startswith("distilled") for dialogue in one.dialogues)
    ]
    if not cards and not bare:
        return None
    learned = {card["digest"]: (card["learned_from"], card["held_out"]) for _, card in cards}
    return {"table": _table(cards) if cards else None, "learned": learned, "bare": bare}


PANEL = Panel("appraiser", "Appraiser", values, tables)
