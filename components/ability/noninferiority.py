"""Non-inferiority: evidence that a tuned policy is not worse than its base by more than a margin set beforehand, item by item.

"Not significantly worse" proves nothing, so there are three outcomes. With d = tuned - base, larger being better:
pass: H0 "d <= -margin" is rejected, that is, the one-sided 95% lower bound of d lies above -margin;
fail: H0 "d >= -margin" is rejected, that is, the one-sided 95% upper bound of d lies below -margin;
inconclusive: neither. The observed difference alone never decides. Both families are Holm-adjusted over the tasks compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa
from pandera.typing import Series

from rlver.components.domain.files import BadFile, read_json, read_jsonl, write_json, write_jsonl
from rlver.components.domain.tables import listed, table_faults
from rlver.components.scoring.statistics import Paired, detectable, holm, p_above, paired_scores, paired_shares, quantile

ALPHA = 0.05
FEWEST_ITEMS = 30  # below, an all-equal sample and a skewed one prove nothing


class LossOutcome(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class NonInferiority:
    """One task's verdict. Bounds are one-sided 95% bounds, not adjusted; p-values are, and they decide."""

    outcome: LossOutcome
    lower: float
    upper: float
    p_not_worse: float  # adjusted p of H0 "worse by the margin or more": small means pass
    p_worse: float  # adjusted p of H0 "not worse by more than the margin": small means fail
    n: int


def non_inferiority(paired: Mapping[str, Paired], margins: Mapping[str, float]) -> dict[str, NonInferiority]:
    """Verdict per task for paired differences (larger is better) and positive margins in the task's own unit.

    Raises ValueError for a margin that is not positive.
    """
    for name in paired:
        if not margins[name] > 0:
            raise ValueError(f"{name}: a non-inferiority margin must be positive, got {margins[name]}")
    above = {name: p_above(one, -margins[name]) for name, one in paired.items()}
    not_worse, worse = holm(above), holm({name: 1 - p for name, p in above.items()})
    verdicts = {}
    for name, one in paired.items():
        half = quantile(1 - ALPHA, one.freedom) * one.standard_error
        outcome = _outcome(one, not_worse[name], worse[name])
        verdicts[name] = NonInferiority(outcome, one.difference - half, one.difference + half, not_worse[name], worse[name], one.n)
    return verdicts


def _outcome(paired: Paired, p_not_worse: float, p_worse: float) -> LossOutcome:
    if paired.n < FEWEST_ITEMS:
        return LossOutcome.INCONCLUSIVE
    if p_not_worse <= ALPHA:
        return LossOutcome.PASS
    return LossOutcome.FAIL if p_worse <= ALPHA else LossOutcome.INCONCLUSIVE


class ItemTable(pa.DataFrameModel):
    """The scores of a benchmark, an item a row; an item may say more, as its cluster."""

    task: Series[pd.StringDtype]
    doc: Series[pd.StringDtype]
    prompt: Series[pd.StringDtype]  # its hash
    score: Series[pd.Float64Dtype]


def items_file(general: Path) -> Path:
    """Where the items of a general.json lie: hashes are no metrics."""
    return general.with_suffix(".items.jsonl")


def layout_folder(general: Path) -> Path:
    """Where lm-eval's own files of a general.json lie."""
    return general.with_suffix(".lm_eval")


def write_general(path: Path, results: Mapping[str, Any]) -> None:
    """Write the result of a benchmark as metrics, and its items beside them."""
    tasks = results["tasks"].items()
    write_jsonl(items_file(path), ({"task": name, **item} for name, task in tasks for item in task["items"]))
    write_json(path, {**results, "tasks": {name: {key: value for key, value in task.items() if key != "items"} for name, task in tasks}})


def with_items(general: Any, path: Path) -> Any:
    """What general.json at `path` holds, each task with its `items`; files of earlier versions have them inside. Raises BadFile."""
    if not isinstance(general, dict) or not isinstance(tasks := general.get("tasks"), dict) or not items_file(path).is_file():
        return general
    rows = list(read_jsonl(items_file(path)))
    if faults := table_faults(ItemTable, [row for _, row in rows]):
        raise BadFile(f"{listed(items_file(path), [line for line, _ in rows], faults)}; run benchmark again")
    items: dict[str, list[Mapping[str, Any]]] = {}
    for number, row in rows:
        if row.get("task") not in tasks:
            raise BadFile(f"{items_file(path)}:{number}: it is of another run than {path.name}; run benchmark again")
        items.setdefault(row["task"], []).append({name: value for name, value in row.items() if name != "task"})
    return {**general, "tasks": {name: {**task, "items": items.get(name, [])} for name, task in tasks.items()}}


def read_general(path: Path) -> Any:
    """A general.json with its items; None where there is none. Raises BadFile."""
    return with_items(read_json(path, "run benchmark again"), path) if path.is_file() else None


class NotComparable(ValueError):
    """Two measurements that must not be compared; the message says which task and why."""


def compare_general(base: Mapping[str, Any], tuned: Mapping[str, Any], margin: float) -> dict[str, Any]:
    """Non-inferiority of every task both sides ran, Holm-adjusted across tasks; `margin` is in the unit of each task's metric.

    A row's `difference` is larger-is-better; `detectable` is the loss that this many items would show with 80% power.
    `outcome` is fail if any task fails, pass if all pass, else inconclusive; a smoke test (benchmark.limit) is always inconclusive.
    `not_compared` names tasks that only one side ran. Raises NotComparable when items or requests differ, or no task is shared.
    """
    same_backend(base, tuned)
    shared = [name for name in base["tasks"] if name in tuned["tasks"]]
    if not shared:
        raise NotComparable("base and tuned have no benchmark task in common")
    paired = {name: _paired(name, base["tasks"][name], tuned["tasks"][name]) for name in shared}
    verdicts = non_inferiority(paired, dict.fromkeys(shared, margin))
    is_smoke_test = bool(base.get("smoke_test") or tuned.get("smoke_test"))
    rows = {name: _row(verdicts[name], base["tasks"][name], tuned["tasks"][name], paired[name], margin, is_smoke_test) for name in shared}
    return {
        "tasks": rows,
        "outcome": str(overall(row["outcome"] for row in rows.values())),
        "smoke_test": is_smoke_test,
        "not_compared": sorted(base["tasks"].keys() ^ tuned["tasks"].keys()),
    }


def of_metric(found: Mapping[str, Any], metric: str) -> Mapping[str, Any]:
    """The measurement without the tasks of other metrics."""
    return {**found, "tasks": {name: task for name, task in found["tasks"].items() if task["metric"] == metric}}


def same_backend(base: Mapping[str, Any], tuned: Mapping[str, Any]) -> None:
    """Raise NotComparable for sides that different programs computed: they round differently, and that is no effect of training."""
    sides = [side.get("backend", "hf") for side in (base, tuned)]
    if sides[0] != sides[1]:
        raise NotComparable(f"base was measured with backend {sides[0]}, tuned with {sides[1]}; benchmark both with the same")


def _paired(name: str, base: Mapping[str, Any], tuned: Mapping[str, Any]) -> Paired:
    pairs = paired_items(name, base, tuned)
    if len(pairs) < 2:
        raise NotComparable(f"task {name}: one item has no interval; measure more (benchmark.limit, or --limit of rlver honesty run)")
    is_share = all(item["score"] in (0.0, 1.0) for pair in pairs for item in pair)
    return (paired_shares if is_share else paired_scores)([gained(base, *pair) for pair in pairs])


def gained(task: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """How much better an item of the task became."""
    return float(after["score"] - before["score"]) * (1 if task["higher_is_better"] else -1)


def paired_items(name: str, base: Mapping[str, Any], tuned: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Every item of both sides, by document. Raises NotComparable when metric, items or requests differ."""
    if (base["metric"], base["higher_is_better"]) != (tuned["metric"], tuned["higher_is_better"]):
        raise NotComparable(
            f"task {name}: base has metric {base['metric']}, tuned has {tuned['metric']}; benchmark both again with one version of lm-eval"
        )
    versions = [one.get("version") for one in (base, tuned)]
    if None not in versions and versions[0] != versions[1]:
        raise NotComparable(
            f"task {name}: base was scored by version {versions[0]} of the task, tuned by {versions[1]}; benchmark both again"
        )
    items_base, items_tuned = _by_document(name, base), _by_document(name, tuned)
    if items_base.keys() != items_tuned.keys():
        alone = len(items_base.keys() ^ items_tuned.keys())
        raise NotComparable(f"task {name}: {alone} items were measured on one side only; benchmark both with the same limit and data")
    changed = sum(items_base[doc]["prompt"] != items_tuned[doc]["prompt"] for doc in items_base)
    if changed:
        raise NotComparable(
            f"task {name}: {changed} of {len(items_base)} items were asked differently (prompt hashes differ); ask both again in the same way"
        )
    return [(items_base[doc], items_tuned[doc]) for doc in sorted(items_base)]


def answered_by_both(base: Mapping[str, Any], tuned: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Both without the items that one of them has not: questions which a policy gave no answer to.

    Raises NotComparable where one was asked more questions than the other: of the rest nothing is known.
    """
    asked = [one.get("answers", 0) + one.get("without_answer", 0) for one in (base, tuned)]
    if asked[0] != asked[1]:
        raise NotComparable(f"the base was asked {asked[0]} questions, this policy {asked[1]}; ask both all of them")

    def with_pair(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
        known = {name: {item["doc"] for item in task["items"]} for name, task in other["tasks"].items()}
        kept = {name: [item for item in task["items"] if item["doc"] in known.get(name, ())] for name, task in one["tasks"].items()}
        return {**one, "tasks": {name: {**task, "items": kept[name]} for name, task in one["tasks"].items() if kept[name]}}

    return with_pair(base, tuned), with_pair(tuned, base)


def _by_document(name: str, task: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    items = {item["doc"]: item for item in task["items"]}
    if len(items) != len(task["items"]):
        raise NotComparable(f"task {name}: documents are not unique, so items cannot be paired; benchmark it again")
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
        "detectable": None if (smallest := detectable(paired, two_sided=False)) is None else round(smallest, 6),
        "n": verdict.n,
        "outcome": str(LossOutcome.INCONCLUSIVE if is_smoke_test else verdict.outcome),
    }


def overall(outcomes: Iterable[str]) -> LossOutcome:
    """Pass if every task passes, fail if one fails."""
    found = set(outcomes)
    return next((worst for worst in (LossOutcome.FAIL, LossOutcome.INCONCLUSIVE) if worst in found), LossOutcome.PASS)
