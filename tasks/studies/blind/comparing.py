"""Pairs of dialogues for one person after the other. What leaves here is what a person may see: sides and words, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from rlver.components.domain.transcript import Dialogue
from rlver.tasks.studies.blind.answer_file import AnswerFile
from rlver.tasks.studies.blind.answers import Choice, Preference, Study, StudyPair, TalkVerdict
from rlver.tasks.studies.blind.pairs import DialoguePair, Placement, order_for, shown

OTHER_PAIR = "This is not the pair that was shown, perhaps because the page is an older one: load it again."


class NoSuchPlace(ValueError):
    """A person's order has no such place, or another pair there than the page showed; the message says what to do."""


def study_of(names: tuple[str, str], pairs: Sequence[DialoguePair], seed: int, most: int, overlap: float) -> Study:
    """What is compared, as it stands in the first line of the answers."""
    tags = sorted({f"{d.simulator.kind}, {d.simulator.difficulty}, {d.simulator.version}" for pair in pairs for d in (pair.a, pair.b)})
    return Study(
        a=names[0],
        b=names[1],
        simulator="; ".join(tags),
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
            "left": [exchange._asdict() for exchange in shown(sides[placement.left])],
            "right": [exchange._asdict() for exchange in shown(sides[placement.right])],
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
