"""How soon dialogues succeed or fail, what the score would be with another cap on the turns, and with the format gate.

The final emotion also measures speed: a policy that is quick to help has more dialogues that end at the ceiling before the cap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlver.components.domain.transcript import StopReason
from rlver.components.report import ink
from rlver.components.report.curves import share_axis
from rlver.components.report.material import Material, Variant
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.portraits import cell, estimate
from rlver.components.report.tables import NUMBER, PERCENT, Cell, Column, Table
from rlver.components.scoring.course import CAPS

_DRAWN = (("succeeded_by_turn", "Succeeded so far"), ("failed_by_turn", "Failed so far"))
_COLUMNS = (
    Column("policy", "Policy"),
    *(Column(f"succeeded_by_{cap}", f"Succeeded by turn {cap}", PERCENT, f"succeeded_by_{cap}") for cap in CAPS),
    *(Column(f"failed_by_{cap}", f"Failed by turn {cap}", PERCENT, f"failed_by_{cap}") for cap in CAPS),
    *(Column(f"emotion_by_{cap}", f"Emotion with {cap} turns", NUMBER, f"emotion_by_{cap}") for cap in CAPS),
    Column("emotion_gated", "Emotion, with format gate", NUMBER, "emotion_gated"),
)


def course_table(material: Material) -> Table | None:
    """None where no metrics have a course, as those of older runs."""
    rows = tuple(_row(variant.name, course) for variant in material.variants if (course := _course(variant)))
    return Table("course", "How soon, and at which cap", _COLUMNS, rows) if rows else None


def _row(name: str, course: Mapping[str, Any]) -> tuple[Cell, ...]:
    return (
        Cell(name),
        *(cell(estimate(_by_turn(course[quantity], cap) if _is_known(course, cap) else None)) for quantity, _ in _DRAWN for cap in CAPS),
        *(cell(estimate(course["emotion_by_cap"][str(cap)])) for cap in CAPS),
        cell(estimate(course["emotion_gated"])),
    )


def _is_known(course: Mapping[str, Any], cap: int) -> bool:
    """Whether the dialogues could have gone on so long."""
    return course["emotion_by_cap"][str(cap)]["value"] is not None


def _by_turn(shares: Mapping[str, Any], cap: int) -> Mapping[str, Any] | None:
    """The share at the cap; where every dialogue was over before it, the last one."""
    last = max(map(int, shares), default=0)
    found: Mapping[str, Any] | None = shares.get(str(min(cap, last)))
    return found


def course_curves(material: Material) -> ink.Drawn | None:
    """Shares of all dialogues over turns, a line a policy: success on the left, failure on the right. Where the limit ended some of its
    dialogues, a policy's line ends there too: nobody knows how they would have gone on."""
    drawn = [(number, variant, course) for number, variant in material.numbered if (course := _course(variant))]
    turns = max((int(turn) for *_, course in drawn for turn in course["succeeded_by_turn"]), default=0)
    if turns < 2:
        return None
    with ink.small_plots(2, 2, 2.6, shared=True) as (figure, cells, _):
        for axes, (quantity, title) in zip(cells, _DRAWN, strict=True):
            for number, variant, course in drawn:
                end = max(map(int, course[quantity]), default=0) if _was_cut(variant) else turns
                reached = [_by_turn(course[quantity], turn) for turn in range(1, end + 1)]
                shares = [0.0, *(one["value"] if one else 0.0 for one in reached)]
                axes.step(range(end + 1), shares, where="post", **ink.series_style(number), linewidth=1.8)
            axes.set_title(title)
            axes.set_xlabel("Turn")
            share_axis(axes)
            ink.without_grid(axes, "x")
    return ink.Drawn(
        "success-and-failure", figure, "Share of all dialogues that have succeeded, and that have failed, over turns, per policy"
    )


def _was_cut(variant: Variant) -> bool:
    return any(one.stop_reason is StopReason.TURN_LIMIT for one in variant.dialogues)


def _course(variant: Variant) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = (variant.sentient or {}).get("course")
    return found


def tables(material: Material, _: ReportRun) -> Sequence[Table]:
    found = course_table(material)
    return [found] if found else []


def values(material: Material, _: ReportRun) -> Mapping[str, Any] | None:
    found = course_table(material)
    return {"table": found} if found else None


PANEL = Panel("course", "How soon", values, tables)
