"""How far the answers of an appraiser differ, as a table for the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlver.components.report.tables import plain_table
from rlver.components.scoring.statistics import Estimated
from rlver.tasks.studies.consistency.consistency import Consistency


def table(rows: Sequence[Consistency]) -> str:
    header = ("probe", "replies", "answers (none)", "variance", "absolute difference", "same direction", "identical")
    return plain_table(
        header,
        (
            (
                f"{row.probe}{', exactly the same' if row.is_exact else ''}",
                row.replies,
                f"{row.answers} ({row.unanswered})",
                *(f"{one.value:.2f} [{one.ci95.low:.2f}, {one.ci95.high:.2f}]" for one in (row.variance, row.mean_difference)),
                *(f"{one.value:.1%} [{one.ci95.low:.1%}, {one.ci95.high:.1%}]" for one in (row.same_direction, row.identical)),
            )
            for row in rows
        ),
    )


def as_json(row: Consistency) -> dict[str, Any]:
    def estimated(one: Estimated) -> dict[str, Any]:
        return {"value": round(one.value, 6), "ci95": [round(end, 6) for end in one.ci95]}

    return {
        "probe": row.probe,
        "replies": row.replies,
        "answers": row.answers,
        "unanswered": row.unanswered,
        "exact": row.is_exact,
        "variance": estimated(row.variance),
        "mean_difference": estimated(row.mean_difference),
        "same_direction": estimated(row.same_direction),
        "identical": estimated(row.identical),
    }
