"""How policies changed in training: their acts, what follows them and how they talk, checkpoint by checkpoint.

Needs the held-out dialogues that a training keeps; transcripts alone have no such panel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlver.components.report.material import Material
from rlver.components.report.over_training_figures import HABITS, MOST_BANDS
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.portraits import cell, quantity, shown_acts, steps_of
from rlver.components.report.tables import COUNT, PERCENT, SIGNED, Cell, Column, Form, Table
from rlver.components.report.wording import readable

Quantity = tuple[str, str, Form, Sequence[str]]  # its key, its heading, how it is written, where it lies in a portrait


def tables(material: Material, _: ReportRun) -> Sequence[Table]:
    """A row a policy and checkpoint, a column a quantity."""
    if not any(steps_of(variant) for variant in material.variants):
        return []
    acts = shown_acts(material)
    found = (
        _table(material, "acts-over-training", "Share of replies with each act", [_of_act(act, PERCENT, "frequency") for act in acts]),
        _table(
            material, "changes-over-training", "Change of emotion after each act", [_of_act(act, SIGNED, "contribution") for act in acts]
        ),
        _table(
            material,
            "habits-over-training",
            "Length, thoughts and repetition",
            [(name, title, form, ("behaviour", name)) for name, title, form in HABITS],
        ),
    )
    return [table for table in found if table.rows]


def _of_act(act: str, form: Form, what: str) -> Quantity:
    return act, readable(act), form, ("acts", act, what)


def _table(material: Material, name: str, title: str, quantities: Sequence[Quantity]) -> Table:
    """Empty where none of the quantities is known."""
    columns = (
        Column("policy", "Policy"),
        Column("step", "Step", COUNT),
        *(Column(key, head, form, key) for key, head, form, _ in quantities),
    )
    rows = [
        (Cell(variant.name), Cell(step), *(cell(quantity(portrayed, path)) for *_, path in quantities))
        for variant in material.variants
        for step, portrayed in steps_of(variant)
    ]
    is_known = any(one.value is not None for row in rows for one in row[2:])
    return Table(name, f"Over training: {title[0].lower()}{title[1:]}", columns, tuple(rows) if is_known else ())


def values(material: Material, run: ReportRun) -> Mapping[str, Any] | None:
    found = tables(material, run)
    if not found:
        return None
    personas = {dialogue.persona_id for v in material.variants for held_out in v.checkpoints.values() for dialogue in held_out}
    return {"tables": found, "personas": len(personas), "most_bands": MOST_BANDS}


PANEL = Panel("over_training", "Over training", values, tables)
