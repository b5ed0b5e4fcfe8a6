"""Audits in Markdown, for the terminal: one table a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Audit = Mapping[str, Any]


def details(name: str, audit: Audit) -> str:
    """Every check of one policy."""
    lines = [
        f"## {_escaped(name)}: {audit['outcome']}" + (f" ({audit['why']})" if audit["why"] else ""),
        "",
        f"{audit['dialogues']} dialogues; second appraiser: {audit['second_appraiser']}",
        "",
        "| Check | Value (95% CI) | Limit | Against the base (95% CI) | Outcome | What it is |",
        "|:--|--:|--:|--:|:--|:--|",
    ]
    lines += [
        f"| {check['name']} | {_estimate(check)} | {_number(check['threshold'])} | {_base(check)} | "
        f"{_marked(check)} | {_escaped(check['why'])} |"
        for check in audit["checks"]
    ]
    return "\n".join([*lines, ""])


def probe_table(probe: Mapping[str, Any]) -> str:
    """What each cheat earned, the best paid first, below what it is compared with."""
    lines = [
        f"## The simulator probed: {probe['outcome']}",
        "",
        f"{probe['simulator']}; {probe['personas']} personas; start {_number(probe['emotion_start'])}; "
        f"limit {_number(probe['threshold'])}: {probe['rule']}.",
        "",
        "| Policy | Mean final emotion (95% CI) | Outcome |",
        "|:--|--:|:--|",
        *(f"| {one['name']} | {_estimate(one)} | for comparison |" for one in probe["references"]),
    ]
    lines += [f"| {_escaped(check['name'])} | {_estimate(check)} | {_marked(check)} |" for check in probe["cheats"]]
    return "\n".join([*lines, ""])


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


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
