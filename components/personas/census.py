"""Counts that show whether persona sets are balanced and apart: the metrics of the personas stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from components.personas.persona import HiddenNeed, Persona, PersonaClass
from components.personas.split import overlap


def split_metrics(train: Sequence[Persona], test: Sequence[Persona]) -> dict[str, Any]:
    """`train` and `test` as by `census`, `overlap` (all zero for a clean split), and the label of imported test rows."""
    return {
        "train": census(train),
        "test": census(test),
        "overlap": overlap(train, test),
        "test_leaked": sum(one.leaked is True for one in test),
        "test_clean": sum(one.leaked is not True for one in test),
    }


def census(personas: Sequence[Persona]) -> dict[str, Any]:
    """Balance of one split. `need_spread` is the largest difference between two needs within one scenario."""
    ages = [one.age for one in personas if one.age is not None]
    by_scenario: dict[str, Counter[HiddenNeed]] = {}
    for one in personas:
        if one.story is not None:
            by_scenario.setdefault(one.story.scenario_id, Counter())[one.hidden_need] += 1
    sizes = [counts.total() for counts in by_scenario.values()]
    return {
        "personas": len(personas),
        "portraits": len({one.portrait for one in personas}),
        "by_source": _counts(one.source for one in personas),
        "by_need": {need.value: sum(one.hidden_need is need for one in personas) for need in HiddenNeed},
        "by_class": {each.value: sum(one.persona_class is each for one in personas) for each in PersonaClass},
        "by_need_and_class": {
            need.value: {
                each.value: sum(one.hidden_need is need and one.persona_class is each for one in personas) for each in PersonaClass
            }
            for need in HiddenNeed
        },
        "by_domain": _counts(one.story.domain for one in personas if one.story is not None),
        "by_style": _counts(one.style for one in personas if one.style is not None),
        "by_gender": _counts(one.gender for one in personas if one.gender is not None),
        "by_trait": _counts(trait for one in personas for trait in one.traits),
        "age_mean": round(sum(ages) / len(ages), 2) if ages else None,
        "scenarios": len(by_scenario),
        "scenario_min": min(sizes, default=0),
        "scenario_max": max(sizes, default=0),
        "need_spread": max(
            (max(counts[need] for need in HiddenNeed) - min(counts[need] for need in HiddenNeed) for counts in by_scenario.values()),
            default=0,
        ),
    }


def _counts(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
