"""A learned judgement in the words of a transcript: the change, and the spans and circumstances that speak most for and against it.

Points of the evidence say how far the expected change would differ if that one thing were usual instead; they need not add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlver.components.domain.protocols import About, Exchange, exchanges_of, now
from rlver.components.domain.transcript import Appraisal, Evidence, SimulatorTag, Turn
from rlver.components.users.distilled import features as columns
from rlver.components.users.distilled.features import Known, known_from, moments_of
from rlver.components.users.distilled.heads import Head
from rlver.components.users.distilled.model import Distilled, FollowedDialogue, Judgement
from rlver.components.users.distilled.ngrams import CLAUSE, Text, read

KIND = "distilled"
ANY_DIFFICULTY = "recorded"  # that of the users it was learned from
SPANS, LONGEST_SPAN = 2, 160  # spans shown for each text; characters of the longest
_REASONS = {
    "mood": "what the user's words tell of the mood",
    "earlier_replies": "how the dialogue has gone so far",
    "redundancy": "what of the reply was said before",
    "specificity": "how far the reply takes up what the user told",
    "form": "the length and form of the reply",
    "persona": "who the user is and what they need",
}
_UNREADABLE = {
    "nothing": "there is nothing in it",
    "talks_about_scores": "it talks about scores or instructions instead of to the user",
    "too_long": "it is longer than any reply that was recorded",
    "gibberish": "it is unlike the language of the recorded replies",
    "says_one_thing_again_and_again": "it says the same again and again",
    "a_list_of_words": "it is a list of words",
    "said_before": "an earlier reply said the same",
}


@dataclass(frozen=True)
class DistilledAppraiser:
    """The one that was learned from recordings. Raises UnfamiliarUser for a user it knows nothing of."""

    model: Distilled

    @property
    def name(self) -> str:
        return self.model.version

    @property
    def tag(self) -> SimulatorTag:
        return SimulatorTag(kind=KIND, difficulty=ANY_DIFFICULTY, version=self.model.version)

    def appraiser(self, about: About, seed: int = 0) -> Follower:
        return Follower(self.model, known_from(about.hidden_need, about.original, about.persona))

    def refusal(self, turns: Sequence[Turn]) -> str | None:
        return None


@dataclass
class Follower:
    """Appraises the replies of one dialogue. What was read is kept, so a dialogue asked about in its order is read once."""

    model: Distilled
    known: Known
    _heard: list[Exchange] = field(default_factory=list)
    _followed: FollowedDialogue = field(init=False)

    async def appraise(self, exchanges: Sequence[Exchange], emotion: int) -> Appraisal:
        """See Appraiser; the emotion is read from the user's words. Raises UnfamiliarUser."""
        heard, self._heard = self._heard, []
        if not heard or list(exchanges[:-1]) != heard:
            heard, self._followed = [], FollowedDialogue(self.model, self.known.need)
        users, replies = [one.user for one in exchanges], [one.reply for one in exchanges]
        for moment in moments_of(self.known, users, replies)[len(heard) :]:
            judgement = self._followed.judge(moment)
        self._heard = list(exchanges)
        last = exchanges[-1]
        evidence = tuple(_evidence(self.model, self.known.need, judgement, read(last.user), read(last.reply)))
        return _in_words(judgement, evidence)


def appraisals(model: Distilled, known: Known, turns: Sequence[Turn]) -> list[Appraisal]:
    """The appraisal of every reply of a recorded dialogue. Raises UnfamiliarUser."""
    follower, exchanges = Follower(model, known), exchanges_of(turns)
    return [now(follower.appraise(exchanges[: number + 1], 0)) for number in range(len(exchanges))]


def _evidence(model: Distilled, need: str | None, judgement: Judgement, user: Text, reply: Text) -> Iterator[Evidence]:
    if judgement.unreadable:
        yield Evidence(step="content", what=judgement.unreadable.what, span=judgement.unreadable.span, points=judgement.change)
        return
    groups = columns.members(model.reasons)
    without = np.repeat(judgement.row[None], len(groups), axis=0)
    for number, members in enumerate(groups.values()):
        without[number, members] = model.usual[members]
    worth = dict(zip(groups, judgement.expected - model.by_words.predict(without), strict=True))
    yield from _spans("content", "reply", model.reply_head, need, reply, round(worth.pop("reply")))
    mood = round(worth.pop("mood"))
    yield from _spans("target", "mood", model.user_head, None, user, mood)
    for what, points in sorted(worth.items(), key=lambda item: -abs(item[1])):
        if round(points):
            yield Evidence(step="effect", what=what, points=round(points))
    yield Evidence(step="effect", what=f"sure:{judgement.sure:.2f}")


def _spans(step: str, what: str, head: Head, need: str | None, text: Text, points: int) -> Iterator[Evidence]:
    """The clauses that speak most in the direction of `points`, which go to the first of them."""
    found = sorted(_clauses(text, head.worth(text, need, 0)), key=lambda clause: -clause[1] if points >= 0 else clause[1])
    for number, (span, worth) in enumerate(found[:SPANS]):
        if number == 0 or (worth > 0) == (points >= 0):
            yield Evidence(step=step, what=what, span=span, points=points if number == 0 else 0)


def _clauses(text: Text, worth: NDArray[np.float64]) -> Iterator[tuple[str, float]]:
    """(verbatim clause, its worth); a clause ends at a mark or a line end."""
    total = np.concatenate([[0.0], np.cumsum(worth)])
    clauses = [found for found in CLAUSE.finditer(text.text) if not found[0].isspace()]
    begins, ends = (np.searchsorted(text.starts, places) for places in ([one.start() for one in clauses], [one.end() for one in clauses]))
    for found, of_clause in zip(clauses, (total[ends] - total[begins]).tolist(), strict=True):
        yield found[0].strip()[:LONGEST_SPAN], of_clause


def _in_words(judgement: Judgement, evidence: tuple[Evidence, ...]) -> Appraisal:
    if judgement.unreadable:
        reason = f"This is no reply to the user: {_UNREADABLE[judgement.unreadable.what]}."
        return Appraisal(
            content=reason, target="Nothing of it can serve the user.", activity="", feeling="", change=judgement.change, evidence=evidence
        )
    spans = [item.span for item in evidence if item.what == "reply" and item.span]
    circumstances = [_REASONS[item.what] for item in evidence if item.what in _REASONS and item.points * judgement.change > 0]
    return Appraisal(
        content=f"What weighs most in the reply: {'; '.join(spans)}" if spans else "No part of the reply stands out.",
        target=f"Users like this were expected to change by {judgement.expected:+.1f} points (give or take {judgement.error:.1f}).",
        activity=f"It also comes from {', '.join(circumstances)}." if circumstances else "",
        feeling=f"{'Better' if judgement.change > 0 else 'Worse' if judgement.change < 0 else 'As'} than before; the direction is right with"
        f" probability {judgement.sure:.2f}.",
        change=judgement.change,
        evidence=evidence,
    )
