"""The rows of the paper run's tables, as numbers: one per policy and user, and one per kind that was trained with several seeds.

The paper run's results as Markdown, to be quoted from: the same tables as the page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, NamedTuple

from rlver.components.report import wording
from rlver.components.report.tables import CapabilityTable, Ends, capability, markdown_table, with_ends
from rlver.components.report.wording import SOURCE, TABLE_1, TABLE_3, PublishedRow
from rlver.components.scoring import intervals
from rlver.components.scoring.statistics import Estimated
from rlver.tasks.studies.paper.aggregates import interquartile_mean
from rlver.tasks.studies.paper.contrasts import Finding, FindingOutcome, FindingRow
from rlver.tasks.studies.paper.material import USERS, PaperKind, PaperPolicy, PaperRun

MIDDLE = "Interquartile mean"
SEEDED = ("emotion_mean", "success_rate", "failure_rate", "right_act_by_turn")


@dataclass(frozen=True)
class PolicyRow:
    """One policy with one user. Emotions in 0..100, rates in 0..1, intervals 95%; None where it was not measured."""

    name: str
    seed: int
    emotion_mean: float
    emotion_ci95: Ends
    success_rate: float
    failure_rate: float
    right_act_by_turn: float | None
    reply_tokens_mean: float | None
    think_tokens_mean: float | None
    step_seconds: float | None  # median over training steps
    difference: float | None
    difference_ci95: Ends | None


class Spread(NamedTuple):
    """A quantity over seeds: mean and range, no interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class SeedRow:
    """One kind with one user over several seeds."""

    kind: PaperKind
    user: str
    seeds: tuple[int, ...]
    spreads: dict[str, Spread | None]  # by name of the quantity, as in SEEDED
    middle: Estimated | None  # interquartile mean of the final emotion over seeds and scenarios


def policy_rows(paper: PaperRun, user: str) -> list[PolicyRow]:
    """Every policy that talked with this user, in the order of the table."""
    return [_row(policy, policy.tested[user].metrics) for policy in paper.policies if user in policy.tested]


def seed_rows(paper: PaperRun, samples: int, seed: int) -> list[SeedRow]:
    """The kinds of which more than one seed was scored; `samples` and `seed` are those of the bootstrap."""
    kinds = list(dict.fromkeys(policy.run.kind for policy in paper.policies if not policy.run.is_base))
    rows = []
    for user in USERS:
        for kind in kinds:
            scored = [policy for policy in paper.of_kind(kind) if user in policy.tested]
            if len(scored) > 1:
                seeds = tuple(sorted(policy.run.seed for policy in scored))
                by_seed = {policy.run.seed: policy.tested[user].emotions for policy in scored}
                middle = interquartile_mean(by_seed, paper.scenarios, samples, seed)
                rows.append(SeedRow(kind, user, seeds, {name: _spread(scored, user, name) for name in SEEDED}, middle))
    return rows


def ability_rows(paper: PaperRun, margin: float) -> list[CapabilityTable]:
    """Every benchmarked policy against its base."""
    general = {policy.run.name: policy.general for policy in paper.policies}
    return [
        capability(policy.run.name, general.get(policy.run.base), policy.general, margin)
        for policy in paper.policies
        if policy.general is not None and not policy.run.is_base
    ]


def _row(policy: PaperPolicy, metrics: Any) -> PolicyRow:
    paired = metrics.get("paired_to_base") or {}
    return PolicyRow(
        name=policy.run.name,
        seed=policy.run.seed,
        emotion_mean=metrics["emotion_mean"],
        emotion_ci95=intervals.from_json(metrics["emotion_ci95"]),
        success_rate=metrics["success_rate"],
        failure_rate=metrics["failure_rate"],
        right_act_by_turn=metrics.get("right_act_by_turn"),
        reply_tokens_mean=metrics.get("reply_tokens_mean"),
        think_tokens_mean=metrics.get("think_tokens_mean"),
        step_seconds=_step_seconds(policy),
        difference=paired.get("difference"),
        difference_ci95=intervals.from_json(paired["ci95"]) if paired else None,
    )


def _step_seconds(policy: PaperPolicy) -> float | None:
    seconds = policy.training.columns.get("seconds", ()) if policy.training else ()
    measured = [value for value in seconds if not math.isnan(value)]
    return median(measured) if measured else None


def _spread(policies: Sequence[PaperPolicy], user: str, name: str) -> Spread | None:
    values = [value for policy in policies if (value := policy.tested[user].metrics.get(name)) is not None]
    return Spread(fmean(values), min(values), max(values)) if values else None


_RESULTS = (
    "Policy", "Seed", "Score", "Difference to base", "Success", "Failure", "Right act by turn", "Reply tokens", "Thought tokens", "s per step",
)  # fmt: skip
_TABLE_3 = ("Evaluated on", "Vanilla, direct", "Vanilla, think", "Challenging, direct", "Challenging, think")
_TESTS = ("Finding", "Case", "User", "Estimate (95% CI)", "Interval over", "Seeds", "Outcome")


def results_markdown(paper: PaperRun, found: list[Finding], seeded: list[SeedRow], margin: float) -> str:
    """Everything the page has, but for its figures."""
    parts = ["# The paper run\n", f"{tally(found)}\n", *[f"- {line}" for line in missing(paper)], ""]
    for user in USERS:
        parts += [f"## With the {user} user\n", markdown_table(_RESULTS, [_policy(row) for row in policy_rows(paper, user)])]
    if seeded:
        header = ("Trained", "User", "Seeds", f"{MIDDLE} (95% CI)", *map(wording.readable, SEEDED))
        parts += ["## Over seeds: mean (range)\n", markdown_table(header, [_seeds(row) for row in seeded])]
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
    """+12.3 (+9.8 to +14.9); a single seed has no interval; without an estimate what is missing."""
    if row.estimate is None:
        return f"needs {'; '.join(row.missing)}"
    ends = "one seed, no interval" if row.estimate.n == 1 else wording.signed_interval(row.estimate.ci95)
    return with_ends(wording.signed(row.estimate.value), ends)


def middle_in_words(row: SeedRow) -> str:
    return wording.DASH if row.middle is None else with_ends(wording.number(row.middle.value), wording.interval(row.middle.ci95))


def spread_in_words(name: str, spread: Spread | None) -> str:
    """45.0 (41.2 to 48.8), or per cent for a rate."""
    if spread is None:
        return wording.DASH
    if name.endswith("_rate"):
        return with_ends(wording.percent(spread.mean), wording.percent_interval((spread.low, spread.high)))
    return with_ends(wording.number(spread.mean), wording.interval((spread.low, spread.high)))


def _policy(row: PolicyRow) -> list[str]:
    return [
        row.name,
        str(row.seed),
        with_ends(wording.number(row.emotion_mean), wording.interval(row.emotion_ci95)),
        with_ends(wording.signed(row.difference), wording.signed_interval(row.difference_ci95)),
        wording.percent(row.success_rate),
        wording.percent(row.failure_rate),
        wording.percent(row.right_act_by_turn),
        wording.number(row.reply_tokens_mean),
        wording.number(row.think_tokens_mean),
        wording.number(row.step_seconds),
    ]


def _seeds(row: SeedRow) -> list[str]:
    spreads = (spread_in_words(name, row.spreads[name]) for name in SEEDED)
    return [str(row.kind), row.user, ", ".join(map(str, row.seeds)), middle_in_words(row), *spreads]


def _test(finding: Finding, row: FindingRow) -> list[str]:
    seeds = ", ".join(map(str, row.seeds))
    return [f"{finding.claim} ({finding.source})", row.case, row.user, estimate_in_words(row), finding.over, seeds, row.outcome]


def _scores(row: PublishedRow) -> str:
    return f"{wording.number(row.emotion_mean)}, {wording.percent(row.success_rate)}, {wording.percent(row.failure_rate)}"
