"""What a person compares: two dialogues with the same persona, one of each side.

What is shown of a dialogue are the words alone: no name, no id, no need, no emotion, no reason why it ended, and no thought, not even
one that was recorded inside a reply.

Who sees what, in which order and on which side: a function of the seed and the person's name, so that it can be taken up again.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from rlver.components.domain.thinking import separate_thought
from rlver.components.domain.transcript import Dialogue


class ShownTurn(NamedTuple):
    """What the user said and what was replied."""

    user: str
    reply: str


@dataclass(frozen=True)
class DialoguePair:
    """Two dialogues with one persona."""

    a: Dialogue
    b: Dialogue

    @property
    def persona_id(self) -> str:
        return self.a.persona_id

    @cached_property
    def pair_id(self) -> str:
        """Twelve hex digits that change when either dialogue does."""
        content = "\n".join(dialogue.model_dump_json() for dialogue in (self.a, self.b))
        return hashlib.sha256(content.encode()).hexdigest()[:12]


class Pairing(NamedTuple):
    """`left_out`: dialogues of either side without a partner, or that failed."""

    pairs: list[DialoguePair]
    left_out: int


def pairs_of(a: Sequence[Dialogue], b: Sequence[Dialogue]) -> Pairing:
    """The dialogues of both sides by persona; repeats are paired in the order of their seeds. Failed dialogues are nobody's.

    Raises ValueError when the sides share no persona.
    """
    of_a, of_b = _finished_by_persona(a), _finished_by_persona(b)
    pairs = [
        DialoguePair(one, other)
        for persona in sorted(of_a.keys() & of_b.keys())
        for one, other in zip(of_a[persona], of_b[persona], strict=False)  # the side with more repeats keeps some
    ]
    if not pairs:
        raise ValueError(
            "the two transcripts have no persona in common with a finished dialogue on both sides; converse with the same ones"
        )
    return Pairing(pairs, len(a) + len(b) - 2 * len(pairs))


def shown(dialogue: Dialogue) -> list[ShownTurn]:
    """What a person may read of it."""
    return [ShownTurn(turn.user, separate_thought(turn.assistant)[1].strip()) for turn in dialogue.turns]


def _finished_by_persona(dialogues: Sequence[Dialogue]) -> dict[str, list[Dialogue]]:
    found: dict[str, list[Dialogue]] = defaultdict(list)
    for dialogue in sorted(dialogues, key=lambda one: (one.seed, one.dialogue_id)):
        if dialogue.error is None and dialogue.turns:
            found[dialogue.persona_id].append(dialogue)
    return found


Side = Literal["a", "b"]


def other(side: Side) -> Side:
    return "b" if side == "a" else "a"


@dataclass(frozen=True)
class Placement:
    """A pair as one person sees it: the side that stands on the left."""

    pair: DialoguePair
    left: Side

    @property
    def right(self) -> Side:
        return other(self.left)


def order_for(rater: str, pairs: Sequence[DialoguePair], most: int, overlap: float, seed: int) -> list[Placement]:
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
