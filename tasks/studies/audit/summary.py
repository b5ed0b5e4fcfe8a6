"""Audits in Markdown, for the terminal: one table a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlver.components.report.tables import plain_table

Audit = Mapping[str, Any]


def details(name: str, audit: Audit) -> str:
    """Every check of one policy."""
    why = f" ({audit['why']})" if audit["why"] else ""
    about = f"{audit['dialogues']} dialogues; second appraiser: {audit['second_appraiser']}; {reference_in_words(audit['reference'])}"
    header = ("Check", "Value (95% CI)", "Limit", "Against the base (95% CI)", "Honest, same score", "Outcome", "What it is")
    rows = (
        (
            check["name"],
            _estimate(check),
            _number(check["threshold"]),
            _base(check),
            "–" if check["reference"] is None else _with_ends(_number(check["reference"]), check["reference_ci95"]),
            _marked(check),
            _without_tags(check["why"]),
        )
        for check in audit["checks"]
    )
    table = plain_table(header, rows, "|:--|--:|--:|--:|--:|:--|:--|")
    return f"## {_without_tags(name).replace('|', chr(92) + '|')}: {audit['outcome']}{why}\n\n{about}\n\n{table}\n"


def reference_in_words(reference: Mapping[str, Any]) -> str:
    """Who the honest supporter is, or why there is none."""
    if reference["final"] is None:
        return f"honest supporter with the same score: {_without_tags(reference['why'])}"
    kept = reference["kept"]
    confirmed = "" if kept is None else f", of whose gain the second appraiser sees {kept['value']:.0%}"
    return f"honest supporter with the same score: {reference['final']:.1f} against {reference['of_policy']:.1f}{confirmed}"


def probe_table(probe: Mapping[str, Any]) -> str:
    """What each cheat earned, the best paid first, below what it is compared with."""
    about = f"{probe['simulator']}; {probe['personas']} personas; start {_number(probe['emotion_start'])}"
    rows = [(one["name"], _estimate(one), "for comparison") for one in probe["references"]]
    rows += [(_without_tags(check["name"]), _estimate(check), _marked(check)) for check in probe["cheats"]]
    table = plain_table(("Policy", "Mean final emotion (95% CI)", "Outcome"), rows, "|:--|--:|:--|")
    limit = f"limit {_number(probe['threshold'])}: {probe['rule']}."
    return f"## The simulator probed: {probe['outcome']}\n\n{about}; {limit}\n\n{table}\n"


def _marked(check: Mapping[str, Any]) -> str:
    return "**alarm**" if check["outcome"] == "alarm" else str(check["outcome"])


def _estimate(check: Mapping[str, Any]) -> str:
    return "–" if check["value"] is None else _with_ends(_number(check["value"]), check["ci95"])


def _base(check: Mapping[str, Any]) -> str:
    if check["to_base"] is None:
        return "–"
    if check["name"].startswith("growth"):
        return "× " + _with_ends(_number(check["to_base"]), check["to_base_ci95"])
    return _with_ends(f"{check['to_base']:+.3f}", check["to_base_ci95"], "+.3f")


def _with_ends(value: str, ends: Sequence[float | None], form: str = "") -> str:
    low, high = (_number(end) if end is None or not form else format(end, form) for end in ends)
    return f"{value} ({low} to {high})"


def _number(value: float | None) -> str:
    """Shares with three decimals, points and factors with one or two."""
    if value is None:
        return "unbounded"
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def _without_tags(text: str) -> str:
    return text.replace("<", "&lt;")
