"""What a person compares: two dialogues with the same persona, one of each side, and what they say of one pair after the other.

What is shown of a dialogue are the words alone: no name, no id, no need, no emotion, no reason why it ended, and no thought, not even
one that was recorded inside a reply.

Who sees what, in which order and on which side: a function of the seed and the person's name, so that it can be taken up again.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from rlver.components.domain.thinking import separate_thought
from rlver.components.domain.transcript import Dialogue, SimulatorTag
from rlver.components.scoring.splits import refuse_mixed_users
from rlver.components.scoring.statistics import by_cluster
from rlver.tasks.studies.blind.answer_file import AnswerFile
from rlver.tasks.studies.blind.answers import Choice, Preference, Side, Study, StudyPair, TalkVerdict, words_of

OTHER_PAIR = "This is not the pair that was shown, perhaps because the page is an older one: load it again."


class NoSuchPlace(ValueError):
    """A person's order has no such place, or another pair there than the page showed; the message says what to do."""


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

    Raises ValueError when the sides share no persona, or met different users.
    """
    refuse_mixed_users([*a, *b])
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


def shown(dialogue: Dialogue) -> list[dict[str, str]]:
    """What a person may read of it: what the user said and what was replied."""
    return [{"user": turn.user, "reply": separate_thought(turn.assistant)[1].strip()} for turn in dialogue.turns]


def _finished_by_persona(dialogues: Sequence[Dialogue]) -> dict[str, list[Dialogue]]:
    ordered = sorted(dialogues, key=lambda one: (one.seed, one.dialogue_id))
    return by_cluster((one.persona_id, one) for one in ordered if one.error is None and one.turns)


def other(side: Side) -> Side:
    return "b" if side == "a" else "a"


@dataclass(frozen=True)
class Placement:
    """A pair as one person sees it: the side that stands on the left."""

    pair: DialoguePair
    left: Side


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


def named(tag: SimulatorTag) -> str:
    """As the answers and the report have it."""
    return f"{tag.kind}, {tag.difficulty}, {tag.version}"


def study_of(names: tuple[str, str], pairs: Sequence[DialoguePair], seed: int, most: int, overlap: float) -> Study:
    """What is compared, as it stands in the first line of the answers."""
    return Study(
        a=names[0],
        b=names[1],
        simulator=named(pairs[0].a.simulator),
        seed=seed,
        pairs_each=most,
        overlap=overlap,
        pairs=tuple(
            StudyPair(
                pair_id=pair.pair_id,
                persona_id=pair.persona_id,
                dialogue_a=pair.a.dialogue_id,
                dialogue_b=pair.b.dialogue_id,
                emotion_a=pair.a.emotion_final,
                emotion_b=pair.b.emotion_final,
                words_a=words_of(pair.a),
                words_b=words_of(pair.b),
            )
            for pair in pairs
        ),
    )


class Comparing:
    """Shows each person their pairs in their order, and keeps what they choose."""

    def __init__(self, pairs: Sequence[DialoguePair], study: Study, answers: AnswerFile, now: Callable[[], str]) -> None:
        self._answers, self._now = answers, now
        self._chosen: dict[tuple[str, str], Choice] = {}
        self._seen: set[tuple[object, ...]] = set()
        self.order = lru_cache(lambda rater: order_for(rater, pairs, study.pairs_each, study.overlap, study.seed))
        for row in answers.rows:
            if isinstance(row, Choice):
                self._keep(row)

    def progress(self, rater: str) -> dict[str, Any]:
        """How far this person is; `next`: the first place without an answer, None when all have one."""
        order = self.order(rater)
        waiting = [place for place, placement in enumerate(order) if (rater, placement.pair.pair_id) not in self._chosen]
        return {"total": len(order), "answered": len(order) - len(waiting), "next": waiting[0] if waiting else None}

    def view(self, rater: str, place: int) -> dict[str, Any]:
        """The two dialogues at a place, and what was answered there. Raises NoSuchPlace."""
        placement = self._placement(rater, place)
        sides: dict[str, Dialogue] = {"a": placement.pair.a, "b": placement.pair.b}
        chosen = self._chosen.get((rater, placement.pair.pair_id))
        return {
            "place": place,
            "pair": placement.pair.pair_id,
            "left": shown(sides[placement.left]),
            "right": shown(sides[other(placement.left)]),
            "answer": as_answered(chosen, placement.left),
            **self.progress(rater),
        }

    def choose(
        self,
        rater: str,
        place: int,
        answer_id: str,
        choice: str,
        confidence: int,
        reason: str,
        seconds: float | None,
        pair: str | None = None,
    ) -> dict[str, Any]:
        """Keep an answer; one that is here already is not kept twice. Returns the progress. Raises NoSuchPlace or NotSaved.

        `pair`: the id of the pair that was shown at the place; None where the sender does not say."""
        placement = self._placement(rater, place)
        if pair not in (None, placement.pair.pair_id):
            raise NoSuchPlace(OTHER_PAIR)
        row = Choice(
            at=self._now(),
            answer_id=answer_id,
            rater=rater,
            pair_id=placement.pair.pair_id,
            left=placement.left,
            preference=preference_of(choice, placement.left),
            confidence=confidence,
            reason=reason,
            seconds=seconds,
        )
        if row.content not in self._seen:
            self._answers.add(row)
            self._keep(row)
        return self.progress(rater)

    def _placement(self, rater: str, place: int) -> Placement:
        order = self.order(rater)
        if not 0 <= place < len(order):
            raise NoSuchPlace(f"there are {len(order)} pairs, and this is none of them")
        return order[place]

    def _keep(self, row: Choice) -> None:
        self._seen.add(row.content)
        self._chosen[row.rater, row.pair_id] = row


def preference_of(choice: str, left: str) -> Preference:
    """left, right or tie, as a, b or tie."""
    if choice == "tie":
        return "tie"
    return "a" if (choice == "left") == (left == "a") else "b"


def side_of(preference: Preference, left: str) -> str:
    """The other way round."""
    return "tie" if preference == "tie" else "left" if preference == left else "right"


def as_answered(row: Choice | TalkVerdict | None, left: str) -> dict[str, Any] | None:
    """What was answered, by the sides that were seen; None where nothing was."""
    return None if row is None else {"choice": side_of(row.preference, left), "confidence": row.confidence, "reason": row.reason}
