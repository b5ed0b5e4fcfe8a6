"""What several panels read from the metrics: values by group, and the comparison of general ability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.evaluation.capability import NotComparable, compare_general
from components.evaluation.report.loading import Material, Variant
from components.files import BadFile


@dataclass(frozen=True)
class CapabilityTable:
    """One variant against the base. `problem` says why there is no comparison; then there are no rows."""

    variant: str
    outcome: str | None
    is_smoke_test: bool
    rows: Mapping[str, Mapping[str, Any]]
    not_compared: Sequence[str]
    problem: str | None


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
