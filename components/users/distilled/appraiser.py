"""A learned appraiser: what was learned, how it follows a dialogue reply by reply, and its judgements in the words of a transcript.

A judgement is explained by the spans and circumstances that speak most for and against it. Points of the evidence say how far the expected
change would differ if that one thing were usual instead; they need not add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlver.components.domain.protocols import About, Exchange, UnfamiliarUser, exchanges_of, now
from rlver.components.domain.transcript import Appraisal, Evidence, SimulatorTag, Turn
from rlver.components.users.distilled import features as columns
from rlver.components.users.distilled.features import Known, Moment, known_from, measures, moments_of
from rlver.components.users.distilled.guard import Guard, Unreadable
from rlver.components.users.distilled.heads import Calibration, Head, Trees
from rlver.components.users.distilled.ngrams import CLAUSE, Text, read

CODE_VERSION = "distilled-2"  # raise it whenever the same folder could give another change


@dataclass(frozen=True, eq=False)
class Distilled:
    """An appraiser that was learned. It reads the mood from the user's words."""

    digest: str  # of everything in its folder that decides a change
    reply_head: Head
    user_head: Head
    trees: Trees
    calibration: Calibration
    guard: Guard
    usual: NDArray[np.float64]  # (columns): means over the recordings, what a reply is compared with when it is explained

    @property
    def version(self) -> str:
        """What a transcript says of its appraiser."""
        return f"appraiser={self.digest}"

    @property
    def reasons(self) -> int:
        return int(self.reply_head.weight.shape[2]) - 1


class Judgement(NamedTuple):
    """`expected` is before calibration, in points; `sure` the probability that the sign of `change` is right, `error` the root mean
    square error of `expected`."""

    change: int
    expected: float
    sure: float
    error: float
    row: NDArray[np.float64]
    unreadable: Unreadable | None


@dataclass
class FollowedDialogue:
    """One dialogue as the appraiser follows it. It remembers what the heads read of earlier replies and messages, and nothing else."""

    model: Distilled
    need: str | None
    _reply_scores: list[NDArray[np.float64]] = field(default_factory=list)
    _user_scores: list[NDArray[np.float64]] = field(default_factory=list)

    def judge(self, moment: Moment) -> Judgement:
        """The judgement of the moment's last reply; moments come in the order of the dialogue. Raises UnfamiliarUser."""
        model = self.model
        reply, earlier = read(moment.replies[-1]), [read(text) for text in moment.replies[:-1]]
        if (known := model.guard.strangeness([read(text) for text in moment.users])) is not None:
            raise UnfamiliarUser(
                f"the user is unlike those the appraiser was learned from: {known:.0%} of what they say occurs there, "
                f"at least {model.guard.limits.user_known:.0%} is needed"
            )
        self._reply_scores.append(model.reply_head.read(reply, self.need))
        self._user_scores.append(model.user_head.read(read(moment.users[-1]), None))
        row = columns.row(measures(moment), np.array(self._reply_scores), np.array(self._user_scores))
        predicted = model.trees.predict(row[None])
        expected, calibration = float(predicted[0]), model.calibration
        unreadable = model.guard.unreadable(reply, earlier)
        change = int(calibration.changes(predicted)[0])
        if unreadable:
            change = min(change, calibration.mildest) if unreadable.what == "said_before" else min(calibration.grid)
        chance = calibration.chance_positive(expected)
        return Judgement(change, expected, chance if change > 0 else 1 - chance, calibration.error(expected), row, unreadable)


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
    worth = dict(zip(groups, judgement.expected - model.trees.predict(without), strict=True))
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
