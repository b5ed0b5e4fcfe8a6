"""The unit of an interval: the scenario, where personas have one, else the persona.

Personas of one scenario tell one story, so they are alike, and other scenarios would have given another mean: an interval over personas
is too narrow. Where scenarios are known they are resampled whole, and Student's t has one degree of freedom less than there are scenarios.
Hidden needs are dealt evenly over scenarios, so what differs between needs hardly adds to the spread of scenarios.

Equal values do not tell how alike the personas of a scenario are. Then they count as if they were as alike as `ALIKE`, the most that
coverage is measured at (docs/statistics.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np

from rlver.components.domain.persona import Persona
from rlver.components.scoring import statistics
from rlver.components.scoring.statistics import Estimated, Interval, Paired, quantile

SCENARIO, PERSONA = "scenario", "persona"
ALIKE = 0.3  # correlation of two personas of one scenario

Values = Mapping[str, Sequence[float]]  # by persona
Differences = Mapping[str, float]  # by persona


@dataclass(frozen=True)
class Units:
    """What intervals are over. `scenario_of` is by persona; a persona that it lacks is a scenario of its own."""

    scenario_of: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(personas: Iterable[Persona]) -> Units:
        """The scenarios of these personas; imported ones have none."""
        return Units({persona.persona_id: persona.story.scenario_id for persona in personas if persona.story is not None})

    def name(self, personas: Iterable[str]) -> str:
        """`scenario` if any of these personas has one, else `persona`."""
        return SCENARIO if any(persona in self.scenario_of for persona in personas) else PERSONA

    def count(self, personas: Iterable[str]) -> int:
        """How many units these personas are."""
        return len({self._unit(persona) for persona in personas})

    def mean(self, values: Values, samples: int, seed: int, whole_range: Interval, of_differences: bool = False) -> Estimated:
        """Mean over all values, with its interval over units. Raises ValueError without values."""
        clusters = self._clusters(values)
        every = [value for members in clusters.values() for value in members]
        if len(clusters) > 1 and statistics.beyond_rounding(max(every) - min(every), max(map(abs, every))) == 0:
            sure_of = len(clusters) if of_differences else 0
            return Estimated(every[0], statistics.of_equals(every[0], self._worth(values), whole_range, sure_of), len(clusters))
        return statistics.cluster_bootstrap(clusters, samples, seed, whole_range, of_differences)

    def share(self, values: Values) -> Estimated:
        """Share of ones among 0/1 values, with Wilson's interval for the effective number of them; the whole range for one unit.

        Raises ValueError without values.
        """
        estimated = statistics.proportion(self._clusters(values))
        if estimated.n > 1 and estimated.value in (0.0, 1.0):
            return Estimated(estimated.value, statistics.wilson(estimated.value, self._worth(values)), estimated.n)
        return estimated

    def paired_mean(self, differences: Differences, samples: int, seed: int, whole_range: Interval) -> Estimated:
        return self.mean({persona: [value] for persona, value in differences.items()}, samples, seed, whole_range, of_differences=True)

    def paired_scores(self, differences: Differences) -> Paired:
        """Mean and standard error of differences of any size; `n` counts units. Raises ValueError for fewer than two."""
        if self.name(differences) == PERSONA:
            return statistics.paired_scores(list(differences.values()))
        error, units = self._error(differences)
        return Paired(math.fsum(differences.values()) / len(differences), error, units, units - 1)

    def paired_shares(self, differences: Differences) -> Paired:
        """The same for differences of shares, after Agresti and Min, for the effective number of personas."""
        if self.name(differences) == PERSONA:
            return replace(statistics.paired_shares(list(differences.values())), freedom=len(differences) - 1)
        error, units = self._error(differences)
        return statistics.paired_shares(list(differences.values()), self._effective(differences, error, units))

    def paired_share_interval(self, differences: Differences) -> Interval:
        """Two-sided 95% interval of a paired difference of shares; the whole range for one unit."""
        if self.count(differences) < 2:
            return Interval(-1.0, 1.0)
        return statistics.share_interval(self.paired_shares(differences))

    def linearised_share(self, values: Differences, observations: int) -> Estimated:
        """A share that is the mean of these values and spreads as they do, resting on so many 0/1 observations; Wilson's interval.

        One unit has the whole range.
        """
        share, units = math.fsum(values.values()) / len(values), self.count(values)
        if units < 2:
            return Estimated(share, Interval(0.0, 1.0), units)
        worth = self._worth(dict.fromkeys(values, (0.0,)))
        if 0 < share < 1 and (error := self._error(values)[0]) > 0:
            worth = max(1.0, min(observations, share * (1 - share) / error**2) * _few(units))
        return Estimated(share, statistics.wilson(share, worth), units)

    def sums(self, differences: Differences) -> list[float]:
        """Of each unit, in the order of their names."""
        return [math.fsum(members) for members in self._clusters({persona: [value] for persona, value in differences.items()}).values()]

    def numbers(self, personas: Sequence[str]) -> tuple[list[int], int]:
        """The number of each persona's unit, and how many units there are."""
        number = {unit: index for index, unit in enumerate(sorted({self._unit(persona) for persona in personas}))}
        return [number[self._unit(persona)] for persona in personas], len(number)

    def _unit(self, persona: str) -> str:
        return self.scenario_of.get(persona, persona)

    def _clusters(self, values: Values) -> dict[str, list[float]]:
        return statistics.by_cluster((self._unit(persona), value) for persona in sorted(values) for value in values[persona])

    def _error(self, differences: Differences) -> tuple[float, int]:
        """(standard error of the mean over scenarios, how many there are). Raises ValueError for fewer than two."""
        mean = math.fsum(differences.values()) / len(differences)
        sums: dict[str, float] = {}
        for persona in sorted(differences):
            sums[self._unit(persona)] = sums.get(self._unit(persona), 0.0) + differences[persona] - mean
        if len(sums) < 2:
            raise ValueError(f"a paired comparison needs at least 2 {SCENARIO}s, got {len(sums)}")
        squares = math.fsum(total * total for total in sums.values())
        return statistics.beyond_rounding(math.sqrt(len(sums) / (len(sums) - 1) * squares) / len(differences), mean), len(sums)

    def _effective(self, differences: Differences, error: float, units: int) -> float:
        """Independent personas that would tell as much."""
        values = list(differences.values())
        independent = float(np.var(values, ddof=1)) / len(values)
        if statistics.beyond_rounding(math.sqrt(independent), math.fsum(values) / len(values)) == 0:
            return self._worth(dict.fromkeys(differences, (0.0,)))
        worth = len(differences) if error == 0 else min(1.0, independent / error**2) * len(differences)
        return max(1.0, worth * _few(units))

    def _worth(self, values: Values) -> float:
        """Independent personas that would tell as much as these, whose values are all equal."""
        having = [persona for persona in values if values[persona]]
        units = self.count(having)
        return len(having) / (1 + (len(having) / units - 1) * ALIKE)


@dataclass(frozen=True)
class Sampling:
    """How intervals are made: so many draws of the bootstrap, from this seed, of these units."""

    samples: int
    seed: int
    units: Units = field(default_factory=Units)

    @staticmethod
    def over(personas: Iterable[Persona], samples: int, seed: int) -> Sampling:
        return Sampling(samples, seed, Units.of(personas))

    def mean(self, values: Values, whole_range: Interval, of_differences: bool = False) -> Estimated:
        return self.units.mean(values, self.samples, self.seed, whole_range, of_differences)

    def paired_mean(self, differences: Differences, whole_range: Interval) -> Estimated:
        return self.units.paired_mean(differences, self.samples, self.seed, whole_range)


def _few(units: int) -> float:
    """What an effective number is worth when only so many units judge it (Korn and Graubard 1998)."""
    return (NormalDist().inv_cdf(0.975) / quantile(0.975, units - 1)) ** 2
