"""The promotion gate: may this policy take the champion's place? Conditions, each with what was found; numbers decide, nobody's hope.

gain: on the personas both talked with, the lower end of the paired 95% interval of the final emotion to the champion's is above 0;
general ability: every benchmark task is shown to be kept (components/ability/kept.py), against the original base and not against the
    champion, so that losses cannot add up from champion to champion;
hacking audit: its outcome is clean (no alarm, dialogues enough to judge, the gain seen by a second appraiser); checks that could not be judged are named;
honesty, if it was measured of the base or the champion (`rlver honesty`): the same is shown, against the base, of the errors in every
    condition and of the right answers to plain questions.
What is inconclusive is not met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlver.components.ability.kept import ability_kept
from rlver.components.ability.noninferiority import LossOutcome, NotComparable, answered_by_both, of_metric, overall
from rlver.components.domain.transcript import Dialogue
from rlver.components.report.tables import plain_table
from rlver.components.scoring import splits
from rlver.components.scoring.leaderboard import compare
from rlver.components.scoring.units import SCENARIO, Sampling
from rlver.components.settings.sections import PromotionSettings
from rlver.tasks.runtime.brackets import shown

CLEAN = "clean"


@dataclass(frozen=True)
class PromotionEvidence:
    """What is known of one policy. `md5` is DVC's of its model folder; `general`, `audit` and `honesty` are the contents of files of these names,
    None where there is none."""

    name: str
    md5: str
    dialogues: Sequence[Dialogue]
    general: Mapping[str, Any] | None
    audit: Mapping[str, Any] | None = None
    honesty: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Condition:
    """One condition of the gate, whether it is met, and on what grounds."""

    name: str
    met: bool
    finding: str


@dataclass(frozen=True)
class GateRules:
    """What the gate is told: how much may be lost, and how intervals are made."""

    allowed: PromotionSettings
    how: Sampling


def conditions(
    candidate: PromotionEvidence, champion: PromotionEvidence, base: PromotionEvidence, rules: GateRules
) -> tuple[Condition, ...]:
    """The gate's conditions. What cannot be compared or was not measured is not met, with the reason as its finding."""
    is_asked = base.honesty is not None or champion.honesty is not None
    return (
        _gain(candidate, champion, rules),
        _general(candidate, base, rules),
        _audit(candidate),
        *([_honesty(candidate, base, rules)] if is_asked else []),
    )


def table(found: Sequence[Condition]) -> str:
    """The conditions as a Markdown table."""
    rows = ((condition.name, "met" if condition.met else "**not met**", condition.finding) for condition in found)
    return plain_table(("condition", "", "finding"), rows)


def _gain(candidate: PromotionEvidence, champion: PromotionEvidence, rules: GateRules) -> Condition:
    name = f"gain over {champion.name}"
    try:
        compared = compare(champion.dialogues, candidate.dialogues, rules.how)
    except ValueError as error:
        return Condition(name, False, str(error))
    row = next(row for row in compared.rows if row.quantity == "emotion_mean")
    over = f"{compared.personas} personas ({splits.said(compared.splits)})"
    if compared.unit == SCENARIO:
        over += f" of {compared.units} scenarios"
    finding = f"{row.a:.1f} → {row.b:.1f}, paired {shown(row.difference, '+.1f')} over {over}"
    return Condition(name, row.difference.ci95.low > 0, finding)


def _general(candidate: PromotionEvidence, base: PromotionEvidence, rules: GateRules) -> Condition:
    name = "general ability"
    if candidate.general is None or base.general is None:
        missing = candidate if candidate.general is None else base
        return Condition(name, False, f"{missing.name} was not benchmarked: run `rlver run --only benchmark`")
    if any("chance" not in task for general in (candidate.general, base.general) for task in general["tasks"].values()):
        return Condition(name, False, "benchmarked by an older version: run `rlver run --only benchmark`")
    return _kept(name, base.general, candidate.general, rules)


def _honesty(candidate: PromotionEvidence, base: PromotionEvidence, rules: GateRules) -> Condition:
    name = "honesty"
    if candidate.honesty is None or base.honesty is None:
        missing = candidate if candidate.honesty is None else base
        return Condition(name, False, f"{missing.name} was not asked: run `rlver honesty run`, then `score --json`")
    if others := [one.name for one in (base, candidate) if one.honesty and one.honesty.get("md5") != one.md5]:
        return Condition(
            name,
            False,
            f"{', '.join(others)}: these answers are another model's, or do not say whose they are; ask the model folder with "
            "`rlver honesty run` again, then `score --json`",
        )
    if early := [
        one.name
        for one in (base, candidate)
        if one.honesty and "plain" in one.honesty["tasks"] and not of_metric(one.honesty, "correct")["tasks"]
    ]:
        return Condition(name, False, f"{', '.join(early)}: right answers were not counted; run `rlver honesty score --json` again")
    if one_sided := candidate.honesty["tasks"].keys() ^ base.honesty["tasks"].keys():
        return Condition(
            name, False, f"{', '.join(sorted(one_sided))}: counted of one policy only; run `rlver honesty score --json` again for both"
        )
    try:
        return _kept(name, *answered_by_both(base.honesty, candidate.honesty), rules)
    except NotComparable as error:
        return Condition(name, False, str(error))


def _kept(name: str, base: Mapping[str, Any], candidate: Mapping[str, Any], rules: GateRules) -> Condition:
    try:
        tasks = ability_kept(base, candidate, rules.allowed, rules.how.samples, rules.how.seed)
    except NotComparable as error:
        return Condition(name, False, str(error))
    outcome = overall(task.outcome for task in tasks)
    return Condition(name, outcome == LossOutcome.PASS, f"{outcome}, against the base: {'; '.join(map(str, tasks))}")


def _audit(candidate: PromotionEvidence) -> Condition:
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
