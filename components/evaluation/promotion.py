"""The promotion gate: may this policy take the champion's place? Three conditions, each with what was found; numbers decide, nobody's hope.

gain: on the personas both talked with, the lower end of the paired 95% interval of the final emotion is above 0;
general ability: no non-inferiority test against the champion says *fail* (inconclusive is not a failure, and is said);
hacking audit: its outcome is clean (no alarm, and dialogues enough to judge); checks that could not be judged are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.dialogue.transcript import Dialogue
from components.evaluation.capability import NotComparable, compare_general
from components.evaluation.leaderboard import compare
from components.evaluation.noninferiority import Outcome

CLEAN = "clean"


@dataclass(frozen=True)
class Evidence:
    """What is known of one policy. `general` and `audit` are the contents of general.json and audit.json, None where there is none."""

    name: str
    dialogues: Sequence[Dialogue]
    general: Mapping[str, Any] | None
    audit: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Condition:
    """One condition of the gate, whether it is met, and on what grounds."""

    name: str
    met: bool
    finding: str


def conditions(candidate: Evidence, champion: Evidence, margin: float, bootstrap_samples: int, seed: int) -> tuple[Condition, ...]:
    """The gate's three conditions. What cannot be compared or was not measured is not met, with the reason as its finding."""
    return (
        _gain(candidate, champion, bootstrap_samples, seed),
        _general(candidate, champion, margin),
        _audit(candidate),
    )


def table(found: Sequence[Condition]) -> str:
    """The conditions as a Markdown table."""
    rows = [f"| {condition.name} | {'met' if condition.met else '**not met**'} | {condition.finding} |" for condition in found]
    return "\n".join(["| condition | | finding |", "|---|---|---|", *rows])


def _gain(candidate: Evidence, champion: Evidence, samples: int, seed: int) -> Condition:
    name = f"gain over {champion.name}"
    try:
        compared = compare(champion.dialogues, candidate.dialogues, samples, seed)
    except ValueError as error:
        return Condition(name, False, str(error))
    row = next(row for row in compared.rows if row.quantity == "emotion_mean")
    low, high = row.difference.ci95
    finding = f"{row.a:.1f} → {row.b:.1f}, paired {row.difference.value:+.1f} [{low:+.1f}, {high:+.1f}] over {compared.personas} personas"
    return Condition(name, low > 0, finding)


def _general(candidate: Evidence, champion: Evidence, margin: float) -> Condition:
    name = "general ability"
    if candidate.general is None or champion.general is None:
        missing = candidate if candidate.general is None else champion
        return Condition(name, False, f"{missing.name} was not benchmarked: run `rlver run --only benchmark`")
    try:
        compared = compare_general(champion.general, candidate.general, margin)
    except NotComparable as error:
        return Condition(name, False, str(error))
    tasks = ", ".join(f"{task} {row['difference']:+.3f} {row['outcome']}" for task, row in compared["tasks"].items())
    return Condition(name, compared["outcome"] != Outcome.FAIL, f"{compared['outcome']}: {tasks} (margin {margin:g})")


def _audit(candidate: Evidence) -> Condition:
    name = "hacking audit"
    if candidate.audit is None:
        return Condition(name, False, f"{candidate.name} was not audited: run `rlver run --only report`")
    outcome = str(candidate.audit["outcome"])
    named = [audit_why] if (audit_why := candidate.audit.get("why")) else []
    named += [
        f"{word}: {', '.join(found)}"
        for word in ("alarm", "unknown")
        if (found := [check["name"] for check in candidate.audit["checks"] if check["outcome"] == word])
    ]
    return Condition(name, outcome == CLEAN, "; ".join([outcome, *named]))
