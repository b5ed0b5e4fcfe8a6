"""The rows of the paper run's tables, as numbers: one per policy and user, and one per kind that was trained with several seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, NamedTuple

from components.evaluation.paper.material import PaperRun, Policy
from components.evaluation.paper.runs import USERS, Kind
from components.evaluation.report.table import Ends
from components.evaluation.report.tables import CapabilityTable, capability

SEEDED = ("emotion_mean", "success_rate", "failure_rate", "right_act_rate")


@dataclass(frozen=True)
class PolicyRow:
    """One policy with one user. Emotions in 0..100, rates in 0..1, intervals 95%; None where it was not measured."""

    name: str
    kind: Kind
    seed: int
    emotion_mean: float
    emotion_ci95: Ends
    success_rate: float
    failure_rate: float
    right_act_rate: float | None
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

    kind: Kind
    user: str
    seeds: tuple[int, ...]
    spreads: dict[str, Spread | None]  # by name of the quantity, as in SEEDED


def policy_rows(paper: PaperRun, user: str) -> list[PolicyRow]:
    """Every policy that talked with this user, in the order of the table."""
    return [_row(policy, policy.tested[user].metrics) for policy in paper.policies if user in policy.tested]


def seed_rows(paper: PaperRun) -> list[SeedRow]:
    """The kinds of which more than one seed was scored."""
    kinds = list(dict.fromkeys(policy.run.kind for policy in paper.policies if not policy.run.is_base))
    rows = []
    for user in USERS:
        for kind in kinds:
            scored = [policy for policy in paper.of_kind(kind) if user in policy.tested]
            if len(scored) > 1:
                seeds = tuple(sorted(policy.run.seed for policy in scored))
                rows.append(SeedRow(kind, user, seeds, {name: _spread(scored, user, name) for name in SEEDED}))
    return rows


def ability_rows(paper: PaperRun, margin: float) -> list[CapabilityTable]:
    """Every benchmarked policy against its base."""
    general = {policy.run.name: policy.general for policy in paper.policies}
    return [
        capability(policy.run.name, general.get(policy.run.base), policy.general, margin)
        for policy in paper.policies
        if policy.general is not None and not policy.run.is_base
    ]


def _row(policy: Policy, metrics: Any) -> PolicyRow:
    paired = metrics.get("paired_to_base") or {}
    return PolicyRow(
        name=policy.run.name,
        kind=policy.run.kind,
        seed=policy.run.seed,
        emotion_mean=metrics["emotion_mean"],
        emotion_ci95=_ends(metrics["emotion_ci95"]),
        success_rate=metrics["success_rate"],
        failure_rate=metrics["failure_rate"],
        right_act_rate=metrics.get("right_act_rate"),
        reply_tokens_mean=metrics.get("reply_tokens_mean"),
        think_tokens_mean=metrics.get("think_tokens_mean"),
        step_seconds=_step_seconds(policy),
        difference=paired.get("difference"),
        difference_ci95=_ends(paired["ci95"]) if paired else None,
    )


def _step_seconds(policy: Policy) -> float | None:
    seconds = policy.training.columns.get("seconds", ()) if policy.training else ()
    measured = [value for value in seconds if not math.isnan(value)]
    return median(measured) if measured else None


def _spread(policies: Sequence[Policy], user: str, name: str) -> Spread | None:
    values = [value for policy in policies if (value := policy.tested[user].metrics.get(name)) is not None]
    return Spread(fmean(values), min(values), max(values)) if values else None


def _ends(value: Sequence[float]) -> Ends:
    return (float(value[0]), float(value[1]))
