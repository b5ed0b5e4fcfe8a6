"""Differences between ways of training, where the trained policies and the scenarios are both only a sample.

A way of training is known by a few policies, one a seed; all of them meet the same personas, and personas of one scenario are alike. So
seeds and scenarios are crossed, and the variance of a difference has a part from either. Both are read off the mean squares of the table
of seeds by scenarios (method of moments), and Student's t gets Satterthwaite's degrees of freedom: three seeds are worth what three
seeds are worth. An interval over personas alone answers another question: what these very policies would get from other users.

The build of the base is one and the same for all policies, so its variance is in none of this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from rlver.components.scoring.statistics import Estimated, Interval, Paired, beyond_rounding, holm, of_equals, p_above, p_differs, quantile

EQUIVALENT = 5.0  # points of the final emotion: a smaller difference between two ways of training is of no consequence
LEAST_SEEDS = 2  # of every trained side; one says nothing about the variance of training
_LEVEL = 0.05

Emotions = Mapping[str, Sequence[float]]  # final emotions by persona


class Side(NamedTuple):
    """A way of training in a weighted sum: its weight, and the final emotions of its policies by seed.

    `is_trained` is False for a base, which is one model and no sample of models.
    """

    weight: float
    by_seed: Mapping[int, Emotions]
    is_trained: bool = True


class Verdict(StrEnum):
    HIGHER = "higher"
    LOWER = "lower"
    EQUIVALENT = "equivalent"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Difference:
    """The weighted sum of sides: `seeds` is the smallest number of policies of a trained side, `scenarios` how many there were.

    `test` holds the standard error with its degrees of freedom, None where it cannot be known: one seed, or one scenario. Two ways of
    training whose difference is smaller than `margin` are equivalent.
    """

    value: float
    test: Paired | None
    seeds: int
    scenarios: int
    margin: float = EQUIVALENT

    def estimated(self, whole_range: Interval) -> Estimated:
        """With its 95% interval, cut at `whole_range`, which it has whole where the standard error is not known."""
        if self.test is None:
            return Estimated(self.value, whole_range, 1)
        if self.test.standard_error == 0:
            return Estimated(self.value, of_equals(self.value, self.scenarios, whole_range, differences=self.test.n), self.seeds)
        half = quantile(0.975, self.test.freedom) * self.test.standard_error
        return Estimated(
            self.value, Interval(max(whole_range.low, self.value - half), min(whole_range.high, self.value + half)), self.seeds
        )


def crossed(sides: Sequence[Side], scenario_of: Mapping[str, str]) -> Difference | None:
    """Mean over seeds and personas of the weighted sum, with the variance of training and of scenarios.

    Only personas that all policies were scored on count; None without any. A persona that `scenario_of` lacks is a scenario of its own.
    """
    policies = [emotions for side in sides for emotions in side.by_seed.values()]
    if not policies or not all(side.by_seed for side in sides):
        return None
    personas = sorted(set.intersection(*(set(emotions) for emotions in policies)))
    if not personas:
        return None
    names = sorted({scenario_of.get(persona, persona) for persona in personas})
    number = {name: position for position, name in enumerate(names)}
    whose = np.array([number[scenario_of.get(persona, persona)] for persona in personas])
    tables = [_Table.of(side, personas, whose, len(names)) for side in sides]
    value = math.fsum(side.weight * table.mean for side, table in zip(sides, tables, strict=True))
    seeds = min((len(side.by_seed) for side in sides if side.is_trained), default=LEAST_SEEDS)
    is_known = seeds >= LEAST_SEEDS and len(names) > 1
    return Difference(value, _tested(value, sides, tables) if is_known else None, seeds, len(names))


class _Table(NamedTuple):
    """Seeds by scenarios: what each scenario's personas add to the mean, as deviations from the mean of all."""

    mean: float
    cells: np.ndarray  # (seeds, scenarios), of mean 0; unequal scenarios weigh by their personas

    @staticmethod
    def of(side: Side, personas: Sequence[str], whose: np.ndarray, scenarios: int) -> _Table:
        values = np.array([[math.fsum(of[persona]) / len(of[persona]) for persona in personas] for of in side.by_seed.values()])
        sums = [np.bincount(whose, weights=row, minlength=scenarios) for row in values - values.mean()]
        return _Table(float(values.mean()), np.array(sums) * scenarios / len(personas))


def _tested(value: float, sides: Sequence[Side], tables: Sequence[_Table]) -> Paired:
    scenarios = tables[0].cells.shape[1]
    of_scenarios = sum(side.weight * table.cells.mean(axis=0) for side, table in zip(sides, tables, strict=True))
    parts = [(float(np.var(of_scenarios, ddof=1)) / scenarios, scenarios - 1)]  # (share of the variance, degrees of freedom)
    for side, table in zip(sides, tables, strict=True):
        seeds = len(table.cells)
        if side.is_trained:
            weight, of_seeds = side.weight**2 / (seeds * scenarios), table.cells.mean(axis=1, keepdims=True)
            left = table.cells - of_seeds - table.cells.mean(axis=0)
            freedom = (seeds - 1) * (scenarios - 1)
            parts.append((weight * scenarios * float(np.var(of_seeds, ddof=1)), seeds - 1))
            parts.append((-weight * float((left**2).sum()) / freedom, freedom))
    if sum(part for part, _ in parts) <= parts[0][0]:  # the seeds differ by less than chance within them
        parts = parts[:1]
    variance = sum(part for part, _ in parts)
    squares = sum(part**2 / freedom for part, freedom in parts)
    return Paired(value, beyond_rounding(math.sqrt(variance), value), scenarios, variance**2 / squares if squares else scenarios - 1)


def p_equivalent(test: Paired, margin: float) -> float:
    """p of two one-sided tests of H0 "the true difference is `margin` or more, either way" (Schuirmann 1987)."""
    turned = Paired(-test.difference, test.standard_error, test.n, test.freedom)
    return max(p_above(test, -margin), p_above(turned, -margin))


def verdicts(differences: Mapping[str, Difference | None]) -> dict[str, Verdict]:
    """A verdict for every row of a table, by name; of both kinds of test all rows are one family (Holm).

    Unknown is what neither test decides, and what rests on one seed. A difference that is shown and small is higher or lower.
    """
    tests = {name: (one.test, one.margin) for name, one in differences.items() if one is not None and one.test is not None}
    differs = holm({name: p_differs(test) for name, (test, _) in tests.items()})
    equal = holm({name: p_equivalent(*test) for name, test in tests.items()})

    def verdict(name: str) -> Verdict:
        if name not in tests:
            return Verdict.UNKNOWN
        if differs[name] < _LEVEL:
            return Verdict.HIGHER if tests[name][0].difference > 0 else Verdict.LOWER
        return Verdict.EQUIVALENT if equal[name] < _LEVEL else Verdict.UNKNOWN

    return {name: verdict(name) for name in differences}
