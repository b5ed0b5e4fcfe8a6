"""Quantities of turns, of which a persona has more or fewer: each as one value a persona, whose mean is the quantity.

*Pooled*: all turns weigh the same, so a dialogue that ends early weighs less, and a policy whose dialogues end early is judged by early
turns. *By turn*: a rate at every turn number, over the dialogues that came so far, and then the plain mean of these rates, so that all turn
numbers weigh the same whoever ends when. Turn numbers that few dialogues reach are left out, for both sides of a comparison alike. Who is
still there at a late turn is no random choice; no weight mends that.

The values are linearised (Cochran 1977, section 6): their spread over personas is that of the quantity.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from rlver.components.domain.acts import right_acts
from rlver.components.domain.transcript import Dialogue
from rlver.components.scoring.statistics import by_cluster

_REACHED = 0.1  # of the dialogues at the turn that most were judged at: below it a turn number is left out

Observed = Mapping[str, Sequence[tuple[int, float]]]  # by persona: turn number, value


def right_acts_of(dialogues: Iterable[Dialogue]) -> dict[str, list[tuple[int, float]]]:
    """The right acts of dialogues by persona; personas without any are left out."""
    return by_cluster((dialogue.persona_id, act) for dialogue in dialogues for act in right_acts(dialogue))


def judged_turns(*sides: Observed) -> set[int]:
    """The turn numbers that enough dialogues of every side reached."""
    reached = [Counter(number for observed in side.values() for number, _ in observed) for side in sides]
    return set.intersection(*({number for number, of in one.items() if of >= _REACHED * max(one.values())} for one in reached))


def by_turn(side: Observed, numbers: Collection[int], personas: Sequence[str]) -> dict[str, float]:
    """A value for each of `personas` whose mean is the mean of the rates at these turn numbers. Every number must have been observed."""
    seen: dict[int, list[float]] = {number: [] for number in sorted(numbers)}
    for persona in sorted(side):
        for number, value in side[persona]:
            if number in seen:
                seen[number].append(value)
    rate = {number: math.fsum(values) / len(values) for number, values in seen.items()}
    mean = math.fsum(rate.values()) / len(rate)

    def own(persona: str) -> float:
        return math.fsum((value - rate[number]) / len(seen[number]) for number, value in side.get(persona, ()) if number in seen)

    return {persona: mean + own(persona) * len(personas) / len(rate) for persona in personas}


def by_turn_differences(tuned: Observed, base: Observed) -> dict[str, float]:
    """The same of `tuned` minus `base`, at the turn numbers that both reached; empty where there are none."""
    if not tuned or not base or not (numbers := judged_turns(tuned, base)):
        return {}
    personas = sorted(tuned.keys() | base.keys())
    ours, theirs = by_turn(tuned, numbers, personas), by_turn(base, numbers, personas)
    return {persona: ours[persona] - theirs[persona] for persona in personas}


def pooled_differences(tuned: Mapping[str, Sequence[float]], base: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """A value for every persona whose mean is the pooled mean of `tuned` minus that of `base`, and whose spread is that of this difference.

    Of turns personas have unequal numbers: the linearised difference of two ratios.
    """
    if not any(tuned.values()) or not any(base.values()):
        return {}
    names = sorted(name for name in tuned.keys() | base.keys() if tuned.get(name) or base.get(name))
    return {name: ours - theirs for name, ours, theirs in zip(names, _linearised(tuned, names), _linearised(base, names), strict=True)}


def _linearised(side: Mapping[str, Sequence[float]], names: Sequence[str]) -> list[float]:
    pooled, count = pooled_mean(side), sum(len(side.get(name, ())) for name in names)
    return [pooled + math.fsum(value - pooled for value in side.get(name, ())) * len(names) / count for name in names]


def pooled_mean(side: Mapping[str, Sequence[float]]) -> float:
    """Mean over all values, so that a persona with more of them weighs more."""
    return math.fsum(value for values in side.values() for value in values) / sum(map(len, side.values()))
