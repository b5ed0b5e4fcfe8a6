"""Which dialogue acts a policy turns to, and when: the share of replies with each act, turn by turn.

Acts are what the appraiser saw in a reply, so transcripts of an appraiser that names none have no such panel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlver.components.report.material import Material
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.portraits import cell, portrait_of, quantity, replies_with_acts, shown_acts
from rlver.components.report.tables import PERCENT, Cell, Column, Table
from rlver.components.report.wording import percent, readable


class Flow(NamedTuple):
    """One variant: for every act shown, its share of the replies at each turn (None: nobody spoke so long) and over all."""

    variant: str
    rows: list[tuple[str, list[float | None], str]]


def flows(material: Material) -> list[Flow]:
    """The variants of which acts are known; all show the same acts, those used most over the variants, and the same turns."""
    acts = shown_acts(material)
    turns = max((len(d.turns) for v in material.variants for d in v.dialogues), default=0)
    replies_of = {variant.name: replies_with_acts(variant.dialogues) for variant in material.variants}
    return [Flow(name, [_over_turns(act, replies, turns) for act in acts]) for name, replies in replies_of.items() if acts and replies]


def _over_turns(act: str, replies: Sequence[tuple[str, int, set[str]]], turns: int) -> tuple[str, list[float | None], str]:
    at_turns = [[act in acts for _, turn, acts in replies if turn == number] for number in range(turns)]
    shares = [sum(seen) / len(seen) if seen else None for seen in at_turns]
    return readable(act), shares, percent(sum(act in acts for _, _, acts in replies) / len(replies))


def tables(material: Material, _: ReportRun) -> Sequence[Table]:
    """The share of replies with each act, of all acts that are shown, as the portraits have it."""
    acts = shown_acts(material)
    columns = (Column("policy", "Policy"), *(Column(act, readable(act), PERCENT, act) for act in acts))
    found = {variant.name: [quantity(portrait_of(variant), ("acts", act, "frequency")) for act in acts] for variant in material.variants}
    lines = tuple((Cell(name), *map(cell, shares)) for name, shares in found.items() if any(shares))
    note = "Share of appraised replies with the act; a reply may perform several. Wilson's interval, for the effective number of replies."
    return [Table("acts", "Dialogue acts", columns, lines, note)] if lines else []


def values(material: Material, run: ReportRun) -> Mapping[str, Any] | None:
    found = flows(material)
    if not found:
        return None
    shares = [share for flow in found for _, at_turns, _ in flow.rows for share in at_turns if share is not None]
    return {"flows": found, "fullest": max(shares), "tables": tables(material, run)}


PANEL = Panel("strategies", "Strategies", values, tables)
