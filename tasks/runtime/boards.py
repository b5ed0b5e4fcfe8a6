"""Scores and leaderboards as a terminal shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlver.components.domain.transcript import Dialogue
from rlver.components.report.tables import plain_table
from rlver.components.report.wording import SAGE_PERSONAS, SAGE_SOURCE, SAGE_TABLE_3, SAGE_USER
from rlver.components.scoring import splits
from rlver.components.scoring.leaderboard import Standing
from rlver.components.scoring.leaderboard import compare as compared
from rlver.components.scoring.units import Sampling
from rlver.tasks.runtime.brackets import in_brackets, shown


def leaderboard(standings: Sequence[Standing], published: bool) -> str:
    """Best first; published rows have no interval and say so."""
    rows: list[tuple[float, tuple[object, ...]]] = []
    for one in standings:
        dialogues = f"{one.dialogues}{f' ({one.unscorable} failed)' if one.unscorable else ''}"
        people = splits.said(one.splits)
        figures = (shown(one.emotion, ".1f"), shown(one.success, ".0%"), shown(one.failure, ".0%"))
        rows.append((one.emotion.value, (one.policy, *figures, dialogues, people, one.unit, one.user, one.source)))
    for row in SAGE_TABLE_3 if published else ():
        emotion, success, failure = f"{row.emotion_mean:.1f} (no CI)", f"{row.success_rate:.0%}", f"{row.failure_rate:.0%}"
        rows.append((row.emotion_mean, (row.name, emotion, success, failure, SAGE_PERSONAS, "–", "–", SAGE_USER, SAGE_SOURCE)))
    rows.sort(key=lambda row: -row[0])
    header = (
        "policy",
        "final emotion [95% CI]",
        "success [95% CI]",
        "failure [95% CI]",
        "dialogues",
        "personas",
        "intervals over",
        "user",
        "source",
    )
    users = {row.user for row in standings} | ({SAGE_USER} if published else set())
    notes = ["", "Scores of different users are not comparable: compare rows of the same user only."] if len(users) > 1 else []
    if len({tuple(row.splits) for row in standings}) > 1:
        notes += ["", "The rows are of different sets of personas: compare rows of the same set only."]
    elif len({row.personas for row in standings}) > 1:
        notes += ["", "The rows are of different personas of one set: compare rows of the same personas only."]
    return "\n".join([plain_table(header, (cells for _, cells in rows)), *notes])


def paired(a: list[Dialogue], b: list[Dialogue], how: Sampling) -> str:
    """A table of both sides' means and the paired differences b - a, with 95% intervals."""
    result = compared(a, b, how)
    lines = [
        f"{result.personas} personas on both sides ({splits.said(result.splits)}); b - a, 95% interval over {result.units} {result.unit}s",
        "",
        plain_table(
            ("", "a", "b", "b - a", "p (Holm)", "detectable"),
            (
                (row.quantity, f"{row.a:.2f}", f"{row.b:.2f}", shown(row.difference, "+.2f"), _p(row.p_holm), _size(row.detectable))
                for row in result.rows
            ),
        ),
    ]
    lines += [
        "",
        "detectable: the difference that these personas would show with 80% power in a row judged alone; p is adjusted over the rows after Holm",
    ]
    lines += [
        "intervals and p are of these two policies and say nothing about another training: rlver report --paper compares ways of training"
    ]
    lines += [
        f"{count} {what}"
        for count, what in (
            (result.only_a, "personas only in a"),
            (result.only_b, "personas only in b"),
            (result.unscorable_a, "failed dialogues in a"),
            (result.unscorable_b, "failed dialogues in b"),
        )
        if count
    ]
    return "\n".join(lines)


def score_text(metrics: dict[str, Any]) -> str:
    lines = [
        f"final emotion  {metrics['emotion_mean']:.1f}  {in_brackets(metrics['emotion_ci95'], '.1f')}",
        f"success        {metrics['success_rate']:.0%}  {in_brackets(metrics['success_ci95'], '.0%')}",
        f"failure        {metrics['failure_rate']:.0%}  {in_brackets(metrics['failure_ci95'], '.0%')}",
        f"turns          {metrics['turns_mean']:.1f}" + (f"  {in_brackets(ends, '.1f')}" if (ends := metrics["turns_ci95"]) else ""),
        f"personas       {splits.said(metrics['persona_splits'])}; intervals over {metrics['interval_units']} {metrics['interval_unit']}s",
        f"dialogues      {metrics['n']}" + (f", of which {metrics['failed_dialogues']} failed" if metrics["failed_dialogues"] else ""),
    ]
    if pair := metrics.get("paired_to_base"):
        both = f", of the {pair['personas']} personas on both sides" if pair["unpaired_personas"] else ""
        lines.append(f"to base        {pair['difference']:+.1f}  {in_brackets(pair['ci95'], '+.1f')}  p {_p(pair['p'])}{both}")
        lines.append(f"detectable     {_size(pair['detectable'])} to base, with 80% power")
    elif (smallest := metrics["detectable"]) is not None:
        lines.append(
            f"detectable     {smallest:.1f} at most, to another policy on the same personas, with 80% power, if the other one spreads the same"
        )
    return "\n".join(lines)


def _p(value: float | None) -> str:
    return "–" if value is None else "< .001" if value < 0.001 else f"{value:.3f}"


def _size(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
