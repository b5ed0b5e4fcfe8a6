"""Proof that train and test are apart: what they share is counted, and sharing is refused; with the metrics of the personas stage.

One leak is known and kept: 54 of the 100 RLVER test profiles reuse the player text of a train profile. Such rows are labelled
`leaked`, so that results can be told apart; every other overlap is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from rlver.components.domain.persona import HiddenNeed, Persona, PersonaClass

SHOWN = 3


class LeakedSplit(ValueError):
    """Train and test share something; the message says what."""


SHAREABLE: dict[str, Callable[[Persona], str | None]] = {
    "persona_ids": lambda persona: persona.persona_id,
    "portraits": lambda persona: persona.portrait.strip(),
    "names": lambda persona: persona.name if persona.source == "generated" else None,
    "scenario_ids": lambda persona: persona.story.scenario_id if persona.story else None,
    "backgrounds": lambda persona: persona.background.strip(),
    "stories": lambda persona: "\n".join(persona.story.lines) if persona.story else None,
}


def overlap(train: Sequence[Persona], test: Sequence[Persona]) -> dict[str, int]:
    """How many different values of each kind are in both splits; all zero for a clean split."""
    return {kind: len(_shared(value_of, train, test)) for kind, value_of in SHAREABLE.items()}


def leaks(train: Sequence[Persona], test: Sequence[Persona]) -> list[str]:
    """One sentence per kind of thing that both splits share, with the test personas concerned; empty for a clean split."""
    found: list[str] = []
    for kind, value_of in SHAREABLE.items():
        shared = _shared(value_of, train, test)
        ids = [one.persona_id for one in test if value_of(one) in shared]
        if ids:
            more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
            found.append(f"{len(shared)} {kind.replace('_', ' ')} in train and test alike: test personas {', '.join(ids[:SHOWN])}{more}")
    return found


def labelled_split(train: Sequence[Persona], test: Sequence[Persona]) -> list[Persona]:
    """The test personas, imported ones labelled clean or leaked when train is imported too. Raises LeakedSplit otherwise.

    Only the player text (the portrait) may be shared, and only between imported rows.
    """
    known = {one.portrait.strip() for one in train if one.source == "rlver"}
    labelled = [
        one.model_copy(update={"leaked": one.portrait.strip() in known if known else None}) if one.source == "rlver" else one
        for one in test
    ]
    unknown = leaks(train, [one for one in labelled if not one.leaked])
    unknown += [one for one in leaks(train, [one for one in labelled if one.leaked]) if " portraits in " not in one]
    if unknown:
        raise LeakedSplit(f"train and test are not apart: {'; '.join(unknown)}")
    return labelled


def _shared(value_of: Callable[[Persona], str | None], train: Sequence[Persona], test: Sequence[Persona]) -> set[str]:
    seen = {value for one in train if (value := value_of(one)) is not None}
    return seen & {value for one in test if (value := value_of(one)) is not None}


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
    cells = Counter((one.hidden_need, one.persona_class) for one in personas)
    by_scenario: dict[str, Counter[HiddenNeed]] = {}
    for one in personas:
        if one.story is not None:
            by_scenario.setdefault(one.story.scenario_id, Counter())[one.hidden_need] += 1
    sizes = [counts.total() for counts in by_scenario.values()]
    spreads = [max(counts[need] for need in HiddenNeed) - min(counts[need] for need in HiddenNeed) for counts in by_scenario.values()]
    return {
        "personas": len(personas),
        "portraits": len({one.portrait for one in personas}),
        "by_source": _counts(one.source for one in personas),
        "by_need": {need.value: sum(cells[need, each] for each in PersonaClass) for need in HiddenNeed},
        "by_class": {each.value: sum(cells[need, each] for need in HiddenNeed) for each in PersonaClass},
        "by_need_and_class": {need.value: {each.value: cells[need, each] for each in PersonaClass} for need in HiddenNeed},
        "by_domain": _counts(one.story.domain for one in personas if one.story is not None),
        "by_style": _counts(one.style for one in personas if one.style is not None),
        "by_gender": _counts(one.gender for one in personas if one.gender is not None),
        "by_trait": _counts(trait for one in personas for trait in one.traits),
        "age_mean": round(sum(ages) / len(ages), 2) if ages else None,
        "scenarios": len(by_scenario),
        "scenario_min": min(sizes, default=0),
        "scenario_max": max(sizes, default=0),
        "need_spread": max(spreads, default=0),
    }


def _counts(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
