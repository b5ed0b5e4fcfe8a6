"""The results table as files: CSV for machines (full precision, rates in 0..1) and Markdown for readers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from components.evaluation.report import wording
from components.evaluation.report.loading import Material
from components.evaluation.report.published import SOURCE
from components.evaluation.report.tables import CapabilityTable, ResultRow, capability_tables, measured_rows, published_rows

_NUMBERS = (
    "n", "failed", "emotion_mean", "emotion_ci95", "success_rate", "success_ci95", "failure_rate", "failure_ci95", "turns_mean",
    "reply_tokens_mean", "think_tokens_mean", "right_act_rate", "difference", "difference_ci95",
)  # fmt: skip


def results_csv(material: Material) -> str:
    """One row per policy, published ones included; an interval takes two columns, _low and _high; unknown cells are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["policy", "source", *(column for name in _NUMBERS for column in _columns(name))])
    for row in [*measured_rows(material), *published_rows()]:
        source = SOURCE if row.is_published else "measured"
        writer.writerow([row.name, source, *(cell for name in _NUMBERS for cell in _cells(row, name))])
    return text.getvalue()


def _columns(name: str) -> list[str]:
    return [f"{name}_low", f"{name}_high"] if name.endswith("_ci95") else [name]


def _cells(row: ResultRow, name: str) -> list[object]:
    value = getattr(row, name)
    if name.endswith("_ci95"):
        return list(value) if value is not None else ["", ""]
    return ["" if value is None else value]


def results_markdown(material: Material, margin: float) -> str:
    """The results and the general-ability table."""
    header = (
        "Policy",
        "Score",
        "Difference to base",
        "Success",
        "Failure",
        "Right act",
        "Turns",
        "Reply tokens",
        "Think tokens",
        "Dialogues",
    )
    parts = [markdown_table(header, [_markdown_row(row) for row in measured_rows(material)])]
    parts.append(f"For the shape, not the level: RLVER paper, Table 1 ({SOURCE}).\n")
    parts.append(markdown_table(("Policy", "Score", "Success", "Failure"), [_published_row(row) for row in published_rows()]))
    for capability in capability_tables(material, margin):
        parts.append(_capability(capability))
    return "\n".join(parts)


def _markdown_row(row: ResultRow) -> list[str]:
    return [
        row.name,
        with_ends(wording.number(row.emotion_mean), wording.interval(row.emotion_ci95)),
        with_ends(wording.signed(row.difference), wording.signed_interval(row.difference_ci95)),
        with_ends(wording.percent(row.success_rate), wording.percent_interval(row.success_ci95)),
        with_ends(wording.percent(row.failure_rate), wording.percent_interval(row.failure_ci95)),
        wording.percent(row.right_act_rate),
        wording.number(row.turns_mean),
        wording.number(row.reply_tokens_mean),
        wording.number(row.think_tokens_mean),
        with_ends(str(row.n), f"{row.failed} unscorable" if row.failed else ""),
    ]


def _published_row(row: ResultRow) -> list[str]:
    return [row.name, wording.number(row.emotion_mean), wording.percent(row.success_rate), wording.percent(row.failure_rate)]


def _capability(capability: CapabilityTable) -> str:
    if capability.problem is not None:
        return f"General ability of {capability.variant}: not compared, {capability.problem}.\n"
    rows = [
        [
            name,
            row["metric"],
            wording.number(row["base"], 3),
            wording.number(row["tuned"], 3),
            with_ends(wording.signed(row["difference"], 3), wording.signed_interval((row["lower95"], row["upper95"]), 3)),
            wording.number(row["margin"], 3),
            str(row["n"]),
            row["outcome"],
        ]
        for name, row in capability.rows.items()
    ]
    title = f"General ability of {capability.variant}: **{capability.outcome}** (more is better; one-sided 95% bounds).\n\n"
    return title + markdown_table(("Task", "Metric", "Base", capability.variant, "Difference", "Margin", "Items", "Outcome"), rows)


def with_ends(value: str, ends: str) -> str:
    """12.3 (10.1 to 14.5), or the value alone."""
    return f"{value} ({ends})" if ends else value


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first column is text; a bar in a cell is escaped."""
    ruler = [":--", *["--:"] * (len(header) - 1)]
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in (header, ruler, *rows)]
    return "\n".join(lines) + "\n"
