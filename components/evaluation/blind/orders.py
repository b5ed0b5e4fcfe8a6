"""Who sees what, in which order and on which side: a function of the seed and the person's name, so that it can be taken up again.

A part of the pairs is everybody's, or nobody could say how far people agree; the rest is drawn for each person.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from components.evaluation.blind.pairs import Pair

Side = Literal["a", "b"]


@dataclass(frozen=True)
class Placement:
    """A pair as one person sees it: the side that stands on the left."""

    pair: Pair
    left: Side

    @property
    def right(self) -> Side:
        return "b" if self.left == "a" else "a"


def order_for(rater: str, pairs: Sequence[Pair], most: int, overlap: float, seed: int) -> list[Placement]:
    """At most `most` pairs, the share `overlap` (0..1) of them the same for everybody; each side is on the left half of the time."""
    drawn = sorted(pairs, key=lambda pair: pair.pair_id)
    random.Random(f"{seed}").shuffle(drawn)
    count = min(most, len(drawn))
    everybodys = round(overlap * count)
    own = random.Random(f"{seed}|{rater}")
    others = drawn[everybodys:]
    own.shuffle(others)
    mine = drawn[:everybodys] + others[: count - everybodys]
    own.shuffle(mine)
    lefts: list[Side] = ["a", "b"] * (count // 2 + 1)
    lefts = lefts[own.randrange(2) :][:count]  # of an odd number either side may have one more
    own.shuffle(lefts)
    return [Placement(pair, left) for pair, left in zip(mine, lefts, strict=True)]
