"""The rows of the report's tables, as numbers; how they look is the page's matter, and of `wording`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.evaluation.capability import NotComparable, compare_general
from components.evaluation.report.loading import Material, Variant
from components.evaluation.report.published import ROWS
from components.files import BadFile

Ends = tuple[float, float]


@dataclass(frozen=True)
class ResultRow:
    """One policy in the results table. Emotions in 0..100, rates in 0..1, intervals 95%; None where nobody measured or published."""

    name: str
    is_published: bool
    n: int | None = None
    failed: int | None = None
    emotion_mean: float | None = None
    emotion_ci95: Ends | None = None
    success_rate: float | None = None
    success_ci95: Ends | None = None
    failure_rate: float | None = None
    failure_ci95: Ends | None = None
    turns_mean: float | None = None
    reply_tokens_mean: float | None = None
    think_tokens_mean: float | None = None
    right_act_rate: float | None = None
    difference: float | None = None
    difference_ci95: Ends | None = None


@dataclass(frozen=True)
class CapabilityTable:
    """One variant against the base. `problem` says why there is no comparison; then there are no rows."""

    variant: str
    outcome: str | None
    is_smoke_test: bool
    rows: Mapping[str, Mapping[str, Any]]
    not_compared: Sequence[str]
    problem: str | None


def measured_rows(material: Material) -> list[ResultRow]:
    """One row per variant, in the material's order; a variant that was not scored has a row of Nones."""
    return [_measured(variant) for variant in material.variants]


def published_rows() -> list[ResultRow]:
    return [
        ResultRow(
            name=row.name, is_published=True, emotion_mean=row.emotion_mean, success_rate=row.success_rate, failure_rate=row.failure_rate
        )
        for row in ROWS
    ]


def _measured(variant: Variant) -> ResultRow:
    metrics = variant.sentient
    if metrics is None:
        failed = sum(dialogue.emotion_final is None for dialogue in variant.dialogues)
        return ResultRow(name=variant.name, is_published=False, n=len(variant.dialogues), failed=failed)
    paired = metrics.get("paired_to_base") or {}
    return ResultRow(
        name=variant.name,
        is_published=False,
        n=metrics["n"],
        failed=metrics.get("failed_dialogues"),
        emotion_mean=metrics["emotion_mean"],
        emotion_ci95=_ends(metrics.get("emotion_ci95")),
        success_rate=metrics.get("success_rate"),
        success_ci95=_ends(metrics.get("success_ci95")),
        failure_rate=metrics.get("failure_rate"),
        failure_ci95=_ends(metrics.get("failure_ci95")),
        turns_mean=metrics.get("turns_mean"),
        reply_tokens_mean=metrics.get("reply_tokens_mean"),
        think_tokens_mean=metrics.get("think_tokens_mean"),
        right_act_rate=metrics.get("right_act_rate"),
        difference=paired.get("difference"),
        difference_ci95=_ends(paired.get("ci95")),
    )


def _ends(value: Any) -> Ends | None:
    return None if value is None else (float(value[0]), float(value[1]))


def capability_tables(material: Material, margin: float) -> list[CapabilityTable]:
    """Every trained variant that was benchmarked against the base; empty when none was."""
    base = material.base
    return [
        capability(variant.name, None if base is None else base.general, variant.general, margin)
        for variant in material.variants
        if not variant.is_base and variant.general is not None
    ]


def capability(name: str, base: Mapping[str, Any] | None, tuned: Mapping[str, Any], margin: float) -> CapabilityTable:
    """One variant against the base. Raises BadFile for metrics that lack what is compared."""
    if base is None:
        return CapabilityTable(name, None, False, {}, (), "the base was not benchmarked, so there is nothing to compare with")
    try:
        compared = compare_general(base, tuned, margin)
    except NotComparable as error:
        return CapabilityTable(name, None, False, {}, (), str(error))
    except (KeyError, TypeError) as error:
        raise BadFile(f"metrics/{name}/general.json or that of the base has no usable {error}; run benchmark again") from error
    return CapabilityTable(name, compared["outcome"], compared["smoke_test"], compared["tasks"], compared["not_compared"], None)


def group_names(material: Material, grouping: str) -> list[str]:
    """All groups (needs or classes) that any variant was scored on; `grouping` is by_need or by_class."""
    return sorted({name for v in material.variants if v.sentient is not None for name in v.sentient.get(grouping, {})})


def group_value(variant: Variant, grouping: str, group: str, quantity: str) -> Any:
    """A quantity of one group of one variant; None where it was not measured."""
    return None if variant.sentient is None else variant.sentient.get(grouping, {}).get(group, {}).get(quantity)
