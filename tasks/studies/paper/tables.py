"""The tables of the paper run: one row per policy and user, and one per kind that was trained with several seeds.

The paper run's results as Markdown, to be quoted from: the same tables as the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean, median
from typing import Any

from rlver.components.report import wording
from rlver.components.report.tables import (
    COUNT,
    NUMBER,
    PERCENT,
    SIGNED,
    CapabilityTable,
    Cell,
    Column,
    Table,
    as_markdown,
    capability,
    ends,
    markdown_table,
    with_ends,
)
from rlver.components.report.wording import SOURCE, TABLE_1, TABLE_3, PublishedRow
from rlver.tasks.studies.paper.aggregates import interquartile_mean
from rlver.tasks.studies.paper.contrasts import Finding, FindingOutcome, FindingRow
from rlver.tasks.studies.paper.material import USERS, PaperPolicy, PaperRun

MIDDLE = "Interquartile mean"
SEEDED = ("emotion_mean", "success_rate", "failure_rate", "right_act_by_turn")
_POLICY = (
    Column("policy", "Policy"),
    Column("seed", "Seed", COUNT),
    Column("emotion_mean", "Score", NUMBER, "emotion_ci95"),
    Column("difference", "Difference to base", SIGNED, "difference_ci95"),
    Column("success_rate", "Success", PERCENT),
    Column("failure_rate", "Failure", PERCENT),
    Column("right_act_by_turn", "Right act by turn", PERCENT),
    Column("reply_tokens_mean", "Reply tokens", NUMBER),
    Column("think_tokens_mean", "Thought tokens", NUMBER),
    Column("step_seconds", "s per step", NUMBER),
)
_SEEDS = (
    Column("kind", "Trained"),
    Column("user", "User"),
    Column("seeds", "Seeds"),
    Column("middle", f"{MIDDLE} (95% CI)", NUMBER, "middle_ci95"),
    *(Column(name, wording.readable(name), NUMBER if name == "emotion_mean" else PERCENT, f"{name}_range") for name in SEEDED),
)


def policy_table(paper: PaperRun, user: str) -> Table:
    """Every policy that talked with this user, in the order of the paper run; seconds are the median over training steps."""
    rows = (_policy(policy, policy.tested[user].metrics) for policy in paper.policies if user in policy.tested)
    return Table(f"policies-{user}", f"With the {user} user", _POLICY, tuple(rows))


def _policy(policy: PaperPolicy, metrics: Mapping[str, Any]) -> tuple[Cell, ...]:
    paired = metrics.get("paired_to_base") or {}
    seconds = policy.training.columns.get("seconds", ()) if policy.training else ()
    measured = [value for value in seconds if not math.isnan(value)]
    return (
        Cell(policy.run.name),
        Cell(policy.run.seed),
        Cell(metrics["emotion_mean"], ends(metrics["emotion_ci95"])),
        Cell(paired.get("difference"), ends(paired["ci95"]) if paired else None),
        *(Cell(metrics[name]) for name in ("success_rate", "failure_rate")),
        *(Cell(metrics.get(name)) for name in ("right_act_by_turn", "reply_tokens_mean", "think_tokens_mean")),
        Cell(median(measured) if measured else None),
    )


def seed_table(paper: PaperRun, samples: int, seed: int) -> Table:
    """The kinds of which more than one seed was scored: interquartile mean of the final emotion over seeds and scenarios, and mean and range of
    the other quantities. `samples` and `seed` are those of the bootstrap."""
    kinds = list(dict.fromkeys(policy.run.kind for policy in paper.policies if not policy.run.is_base))
    rows = []
    for user in USERS:
        for kind in kinds:
            scored = sorted((policy for policy in paper.of_kind(kind) if user in policy.tested), key=lambda policy: policy.run.seed)
            if len(scored) > 1:
                middle = interquartile_mean({one.run.seed: one.tested[user].emotions for one in scored}, paper.scenarios, samples, seed)
                seeds = ", ".join(str(one.run.seed) for one in scored)
                spreads = (_spread([one.tested[user].metrics.get(name) for one in scored]) for name in SEEDED)
                rows.append((Cell(str(kind)), Cell(user), Cell(seeds), Cell(middle.value, middle.ci95) if middle else Cell(None), *spreads))
    return Table("seeds", "Over seeds: mean (range)", _SEEDS, tuple(rows))


def _spread(found: list[float | None]) -> Cell:
    """Mean and range over seeds, no interval."""
    values = [value for value in found if value is not None]
    return Cell(fmean(values), (min(values), max(values))) if values else Cell(None)


def ability_rows(paper: PaperRun, margin: float) -> list[CapabilityTable]:
    """Every benchmarked policy against its base."""
    general = {policy.run.name: policy.general for policy in paper.policies}
    return [
        capability(policy.run.name, general.get(policy.run.base), policy.general, margin)
        for policy in paper.policies
        if policy.general is not None and not policy.run.is_base
    ]


_TABLE_3 = ("Evaluated on", "Vanilla, direct", "Vanilla, think", "Challenging, direct", "Challenging, think")
_TESTS = ("Finding", "Case", "User", "Estimate (95% CI)", "Interval over", "Seeds", "Outcome")


def results_markdown(paper: PaperRun, found: list[Finding], seeded: Table, margin: float) -> str:
    """Everything the page has, but for its figures."""
    parts = ["# The paper run\n", f"{tally(found)}\n", *[f"- {line}" for line in missing(paper)], ""]
    parts += [as_markdown(policy_table(paper, user)) for user in USERS]
    if seeded.rows:
        parts.append(as_markdown(seeded))
    parts += ["## Findings\n", markdown_table(_TESTS, [_test(finding, row) for finding in found for row in finding.rows])]
    if ability := ability_rows(paper, margin):
        compared = [[one.variant, one.outcome or wording.DASH, tasks_in_words(one)] for one in ability]
        parts += ["## General ability\n", markdown_table(("Policy", "Outcome", "Tasks"), compared)]
    table_1 = [[sentient.name, _scores(sentient), _scores(chit_chat)] for sentient, chit_chat in TABLE_1]
    parts.append(f"## Published: another model, another user, another scale\n\nRLVER paper ({SOURCE}). Score, success, failure.\n")
    parts.append(markdown_table(("Policy (Table 1)", "Sentient-Benchmark", "Chit-Chat"), table_1))
    table_3 = [[row.evaluated_on, *map(wording.number, row[1:])] for row in TABLE_3]
    parts += ["RLVER paper, Table 3 (PPO; columns: the user in training).\n", markdown_table(_TABLE_3, table_3)]
    return "\n".join(parts)


def tally(found: list[Finding]) -> str:
    """How the findings came out, in one sentence."""
    outcomes = [row.outcome for finding in found for row in finding.rows]
    by_outcome = ", ".join(f"{outcome}: {outcomes.count(outcome)}" for outcome in FindingOutcome)
    return f"{len(outcomes)} tests of findings. {by_outcome.capitalize()}."


def missing(paper: PaperRun) -> list[str]:
    """One line for every policy that is not complete."""
    return [f"{policy.run.name}: {policy.problem}" for policy in paper.incomplete]


def tasks_in_words(table: CapabilityTable) -> str:
    """Each task with its difference to the base and its own outcome, or why there is none."""
    if table.problem is not None:
        return f"not compared: {table.problem}"
    return "; ".join(f"{name} {wording.signed(row['difference'], 3)} ({row['outcome']})" for name, row in table.rows.items())


def estimate_in_words(row: FindingRow) -> str:
    """+12.3 (+9.8 to +14.9); a single seed on a side leaves no interval; without an estimate what is missing."""
    if row.estimate is None:
        return f"needs {'; '.join(row.missing)}"
    beside = "one seed on a side, no interval" if row.estimate.n == 1 else wording.signed_interval(row.estimate.ci95)
    return with_ends(wording.signed(row.estimate.value), beside)


def _test(finding: Finding, row: FindingRow) -> list[str]:
    seeds = ", ".join(map(str, row.seeds))
    return [f"{finding.claim} ({finding.source})", row.case, row.user, estimate_in_words(row), finding.over, seeds, row.outcome]


def _scores(row: PublishedRow) -> str:
    return f"{wording.number(row.emotion_mean)}, {wording.percent(row.success_rate)}, {wording.percent(row.failure_rate)}"
