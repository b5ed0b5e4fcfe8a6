"""Was general ability kept? What the promotion gate asks of a policy and the original base, stricter than the report's table.

A task is passed when the lower end of the 95% interval of the change lies above -margin, so nothing is passed for want of evidence. The
margin is set beforehand: for shares of right answers, the part of the base's skill above chance that may be lost; for other metrics, an
amount in the unit of the metric. The interval resamples whole clusters of items (the relations of the small world); for right and wrong
items it is never narrower than Agresti and Min's, which keeps its width when no item flips. All tasks must pass, so nothing is adjusted:
asking more of a policy cannot let a bad one through more often.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlver.components.ability.noninferiority import FEWEST_ITEMS, LossOutcome, NotComparable, gained, paired_items, same_backend
from rlver.components.scoring.statistics import Interval, by_cluster, cluster_bootstrap, paired_share_interval
from rlver.components.settings.sections import PromotionSettings


@dataclass(frozen=True)
class KeptTask:
    """One task: `change` is larger-is-better, `margin` in the same unit."""

    task: str
    change: float
    ci95: Interval
    margin: float
    items: int
    clusters: int
    outcome: LossOutcome

    def __str__(self) -> str:
        grouped = "" if self.clusters == self.items else f" in {self.clusters} clusters"
        return (
            f"{self.task} {self.outcome}: {self.change:+.3f} [{self.ci95.low:+.3f}, {self.ci95.high:+.3f}] "
            f"of {self.items} items{grouped}, may lose {self.margin:.3f}"
        )


def ability_kept(
    base: Mapping[str, Any], tuned: Mapping[str, Any], allowed: PromotionSettings, samples: int, seed: int
) -> tuple[KeptTask, ...]:
    """Every task of the base. Raises NotComparable when the tasks, their items or requests differ, or a task has no margin."""
    if alone := sorted(base["tasks"].keys() ^ tuned["tasks"].keys()):
        raise NotComparable(f"measured on one side only: {', '.join(alone)}; benchmark both with the same tasks")
    same_backend(base, tuned)
    if not base["tasks"]:
        raise NotComparable("no task was measured; name tasks in benchmark.tasks")
    is_smoke_test = bool(base.get("smoke_test") or tuned.get("smoke_test"))
    kept = (_kept(name, task, tuned["tasks"][name], allowed, samples, seed) for name, task in base["tasks"].items())
    return tuple(replace(task, outcome=LossOutcome.INCONCLUSIVE) if is_smoke_test else task for task in kept)


def margin_of(name: str, base: Mapping[str, Any], allowed: PromotionSettings) -> float:
    """How much of a task may be lost. Raises NotComparable where that is not known, or there is nothing to lose."""
    if (stated := allowed.margins.get(base["metric"])) is not None:
        return stated
    if base.get("chance") is None:
        raise NotComparable(
            f"task {name}: no level of chance is known; state how much of {base['metric']} may be lost "
            f"(promotion.margins.{base['metric']}), or benchmark again with another task"
        )
    skill = base["value"] - base["chance"]
    if skill <= 0:
        raise NotComparable(
            f"task {name}: the base is no better than chance, so nothing can be shown to be kept; take a task that it can do"
        )
    return float((1 - allowed.skill_kept) * skill)


def _kept(name: str, base: Mapping[str, Any], tuned: Mapping[str, Any], allowed: PromotionSettings, samples: int, seed: int) -> KeptTask:
    pairs = paired_items(name, base, tuned)
    margin = margin_of(name, base, allowed)
    changes = [gained(base, *pair) for pair in pairs]
    clusters = by_cluster((str(before.get("cluster", before["doc"])), change) for (before, _), change in zip(pairs, changes, strict=True))
    estimated = cluster_bootstrap(clusters, samples, seed, Interval(-math.inf, math.inf), of_differences=True)
    low, high = estimated.ci95
    if all(item["score"] in (0.0, 1.0) for pair in pairs for item in pair):
        of_items = paired_share_interval(changes)
        low, high = min(low, of_items.low), max(high, of_items.high)
    outcome = LossOutcome.INCONCLUSIVE
    if len(pairs) >= FEWEST_ITEMS:
        outcome = LossOutcome.PASS if low > -margin else LossOutcome.FAIL if high < -margin else outcome
    return KeptTask(name, estimated.value, Interval(low, high), margin, len(pairs), estimated.n, outcome)
