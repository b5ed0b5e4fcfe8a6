"""Did the tuned policy lose general capability? Base and tuned `general.json` paired item by item.

Pairing is by document, and refused unless both sides saw the same request for it: another prompt, template or answer limit is
another test. Differences are turned so that larger is better, also for metrics of which less is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.evaluation.noninferiority import NonInferiority, Outcome, non_inferiority
from components.evaluation.statistics import Paired, detectable, paired_scores, paired_shares


class NotComparable(ValueError):
    """Two measurements that must not be compared; the message says which task and why."""


def compare_general(base: Mapping[str, Any], tuned: Mapping[str, Any], margin: float) -> dict[str, Any]:
    """Non-inferiority of every task both sides ran, Holm-adjusted across tasks; `margin` is in the unit of each task's metric.

    A row's `difference` is larger-is-better; `detectable` is the loss that this many items would show with 80% power.
    `outcome` is fail if any task fails, pass if all pass, else inconclusive; a smoke test (benchmark.limit) is always inconclusive.
    `not_compared` names tasks that only one side ran. Raises NotComparable when items or requests differ, or no task is shared.
    """
    shared = [name for name in base["tasks"] if name in tuned["tasks"]]
    if not shared:
        raise NotComparable("base and tuned have no benchmark task in common")
    paired = {name: _paired(name, base["tasks"][name], tuned["tasks"][name]) for name in shared}
    verdicts = non_inferiority(paired, dict.fromkeys(shared, margin))
    is_smoke_test = bool(base.get("smoke_test") or tuned.get("smoke_test"))
    rows = {name: _row(verdicts[name], base["tasks"][name], tuned["tasks"][name], paired[name], margin, is_smoke_test) for name in shared}
    return {
        "tasks": rows,
        "outcome": str(_overall([row["outcome"] for row in rows.values()])),
        "smoke_test": is_smoke_test,
        "not_compared": sorted(base["tasks"].keys() ^ tuned["tasks"].keys()),
    }


def _paired(name: str, base: Mapping[str, Any], tuned: Mapping[str, Any]) -> Paired:
    if (base["metric"], base["higher_is_better"]) != (tuned["metric"], tuned["higher_is_better"]):
        raise NotComparable(f"task {name}: base has metric {base['metric']}, tuned has {tuned['metric']}")
    items_base, items_tuned = _by_document(name, base), _by_document(name, tuned)
    if items_base.keys() != items_tuned.keys():
        alone = len(items_base.keys() ^ items_tuned.keys())
        raise NotComparable(f"task {name}: {alone} items were measured on one side only; benchmark both with the same limit and data")
    changed = sum(items_base[doc]["prompt"] != items_tuned[doc]["prompt"] for doc in items_base)
    if changed:
        raise NotComparable(f"task {name}: {changed} of {len(items_base)} items were asked differently (prompt hashes differ)")
    sign = 1.0 if base["higher_is_better"] else -1.0
    differences = [sign * (items_tuned[doc]["score"] - items_base[doc]["score"]) for doc in sorted(items_base)]
    is_share = all(item["score"] in (0.0, 1.0) for items in (items_base, items_tuned) for item in items.values())
    return (paired_shares if is_share else paired_scores)(differences)


def _by_document(name: str, task: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    items = {item["doc"]: item for item in task["items"]}
    if len(items) != len(task["items"]):
        raise NotComparable(f"task {name}: documents are not unique, so items cannot be paired")
    return items


def _row(
    verdict: NonInferiority, base: Mapping[str, Any], tuned: Mapping[str, Any], paired: Paired, margin: float, is_smoke_test: bool
) -> dict[str, Any]:
    return {
        "metric": base["metric"],
        "higher_is_better": base["higher_is_better"],
        "base": base["value"],
        "tuned": tuned["value"],
        "difference": round((tuned["value"] - base["value"]) * (1 if base["higher_is_better"] else -1), 6),
        "lower95": round(verdict.lower, 6),
        "upper95": round(verdict.upper, 6),
        "p_not_worse": round(verdict.p_not_worse, 6),
        "p_worse": round(verdict.p_worse, 6),
        "margin": margin,
        "detectable": round(detectable(paired, two_sided=False), 6),
        "n": verdict.n,
        "outcome": str(Outcome.INCONCLUSIVE if is_smoke_test else verdict.outcome),
    }


def _overall(outcomes: list[str]) -> Outcome:
    if Outcome.FAIL in outcomes:
        return Outcome.FAIL
    return Outcome.PASS if all(outcome == Outcome.PASS for outcome in outcomes) else Outcome.INCONCLUSIVE
