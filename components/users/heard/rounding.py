"""What another machine may have heard. Two processors add in different orders, so the last bits of a sum differ; and now and then a probability that
lies between two marks of the grid falls on the other one.

A recorded appraisal is taken where the four steps give exactly that, in every word, probability and point, once one probability of one reply of the dialogue stands
one mark higher or lower. Nothing else is taken: what follows from a step is never estimated, so nothing has room beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from rlver.components.domain.protocols import About, Exchange, Rounding
from rlver.components.domain.transcript import Appraisal
from rlver.components.users.heard.appraiser import HeardAppraiser, Hearing
from rlver.components.users.heard.reading import GRID, VALUES, Heard

Way = Mapping[int, Heard]  # replies that were heard otherwise than here, by number from 0


@dataclass(frozen=True)
class BesideRecorded(HeardAppraiser):
    """The same users in one dialogue, whose appraisals were recorded."""

    recorded: Sequence[Appraisal]
    rounded: list[Rounding]

    def appraiser(self, about: About, seed: int = 0) -> Any:
        return Rounded(super().appraiser(about, seed), self.recorded, self.rounded)


@dataclass
class Rounded:
    """One user. After an appraisal that cannot have come about so, everything is as it is derived here."""

    hearing: Hearing
    recorded: Sequence[Appraisal]
    rounded: list[Rounding]
    _ways: list[Way] = field(default_factory=lambda: [{}])  # all in which the dialogue so far may have been heard

    def ahead(self, exchanges: Sequence[Exchange]) -> list[Future[Heard]]:
        return self.hearing.ahead(exchanges)

    async def appraise(self, exchanges: Sequence[Exchange], emotion: int) -> Appraisal:
        here, there = await self.hearing.appraise(exchanges, emotion), self.recorded[len(exchanges) - 1]

        async def gives_recorded(way: Way, since: int) -> bool:
            """Whether that is what follows for each reply from `since` on; how the user feels before one makes no difference."""
            hearing = replace(self.hearing, otherwise=way)
            for replies in range(len(exchanges), since, -1):
                if await hearing.appraise(exchanges[:replies], emotion) != self.recorded[replies - 1]:
                    return False
            return True

        ways = [way for way in self._ways if await gives_recorded(way, len(exchanges) - 1)]
        self._ways = ways or [way for way, since in self._a_step_further(exchanges) if await gives_recorded(way, since)]
        if not self._ways:
            return here
        if here != there:
            here_points, there_points = (sum(one.points for one in either.evidence) for either in (here, there))
            self.rounded.append(Rounding(1 / GRID, round(abs(here_points - there_points), 2), abs(here.change - there.change)))
        return there

    def _a_step_further(self, exchanges: Sequence[Exchange]) -> Iterator[tuple[Way, int]]:
        """Each way with one step more, and the reply that was heard so."""
        for way in self._ways:
            hearing = replace(self.hearing, otherwise=way)
            for number in range(len(exchanges)):
                if number in way:  # one step in a reply is rare, a second one is no rounding
                    continue
                for heard in a_step_away(hearing.hear(exchanges, number)):
                    yield {**way, number: heard}, number


def a_step_away(heard: Heard) -> Iterator[Heard]:
    """All readings in which one probability stands one mark of the grid higher or lower."""
    yield from (replace(heard, acts=acts) for acts in _one_moved(heard.acts))
    yield from (replace(heard, quality=quality) for quality in _one_moved(heard.quality))
    yield from (replace(heard, signs=signs) for signs in _one_moved(heard.signs))
    yield from (replace(heard, ends=other) for other in _marks_beside(heard.ends))
    for step in (-1, 1):  # the value is a sum of probabilities, and that it helps is one of them
        value = round(heard.value + step / GRID, 2)
        if VALUES[0] <= value <= VALUES[-1]:
            beside = [other for other in _marks_beside(heard.helps) if (other > heard.helps) == (step > 0)]
            yield from (replace(heard, value=value, helps=helps) for helps in (heard.helps, *beside))


def _one_moved(probabilities: Mapping[str, float]) -> Iterator[dict[str, float]]:
    for name, probability in probabilities.items():
        yield from ({**probabilities, name: other} for other in _marks_beside(probability))


def _marks_beside(probability: float) -> list[float]:
    mark = round(probability * GRID)
    return [other / GRID for other in (mark - 1, mark + 1) if 0 <= other <= GRID]
