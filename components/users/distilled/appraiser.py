"""A learned judgement in the words of a transcript: the change, and the spans and circumstances that speak most for and against it.

Points of the evidence say how far the expected change would differ if that one thing were usual instead; they need not add up.

Users who speak as another simulator does and feel as the recorded users did: its speaker, the distilled appraiser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import SimulatorUnavailable, Utterance
from rlver.components.domain.transcript import Appraisal, Evidence, SimulatorTag, Turn
from rlver.components.users.distilled import features as columns
from rlver.components.users.distilled.features import Known, Moment, known_of
from rlver.components.users.distilled.folder import read_folder
from rlver.components.users.distilled.heads import Head
from rlver.components.users.distilled.model import Distilled, Judgement, Listening, UnfamiliarUser
from rlver.components.users.distilled.ngrams import CLAUSE, Text, read

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


@dataclass
class DistilledAppraiser:
    """Appraises the replies of one dialogue, in their order."""

    model: Distilled
    known: Known
    _users: list[str] = field(default_factory=list)
    _replies: list[str] = field(default_factory=list)
    _listening: Listening = field(init=False)

    def __post_init__(self) -> None:
        self._listening = Listening(self.model, self.known.need)

    def appraise(self, user: str, reply: str) -> Appraisal:
        """How the user feels about `reply` to the message `user`. Raises UnfamiliarUser."""
        self._users.append(user)
        self._replies.append(reply)
        judgement = self._listening.judge(Moment(self.known, tuple(self._users), tuple(self._replies)))
        evidence = tuple(_evidence(self.model, self.known.need, judgement, read(user), read(reply)))
        return _in_words(judgement, evidence)


def appraisals(model: Distilled, known: Known, turns: Sequence[Turn]) -> list[Appraisal]:
    """The appraisal of every reply of a recorded dialogue. Raises UnfamiliarUser."""
    appraiser = DistilledAppraiser(model, known)
    return [appraiser.appraise(turn.user, turn.assistant) for turn in turns]


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


KIND = "distilled"


class SpeakerSession(Protocol):
    """A user session that can be told what it feels."""

    async def open(self) -> Utterance: ...

    async def hear(self, reply: str, appraisal: Appraisal) -> None:
        """Take `reply` and what another appraiser made of it, in place of `appraise`."""
        ...

    async def speak(self, emotion: int) -> Utterance: ...


class Speaker(Protocol):
    @property
    def tag(self) -> SimulatorTag: ...

    def session(self, persona: Persona, seed: int) -> SpeakerSession: ...


@dataclass(frozen=True)
class DistilledSimulator:
    """`folder` is what `rlver distil` wrote; it is read when it is first needed."""

    speaker: Speaker
    folder: Path

    @property
    def tag(self) -> SimulatorTag:
        spoken = self.speaker.tag
        return SimulatorTag(
            kind=f"{KIND}+{spoken.kind}", difficulty=spoken.difficulty, version=f"{read_folder(self.folder).version} {spoken.version}"
        )

    def session(self, persona: Persona, seed: int) -> DistilledSession:
        return DistilledSession(self.speaker.session(persona, seed), DistilledAppraiser(read_folder(self.folder), known_of(persona)))


@dataclass
class DistilledSession:
    """One user in one dialogue, for life."""

    speaker: SpeakerSession
    appraiser: DistilledAppraiser
    _message: str = field(default="", init=False)

    async def open(self) -> Utterance:
        return self._said(await self.speaker.open())

    async def appraise(self, reply: str) -> Appraisal:
        """See UserSession. Raises SimulatorUnavailable for a user unlike the recorded ones: better no reward than a made-up one."""
        try:
            appraisal = self.appraiser.appraise(self._message, reply)
        except UnfamiliarUser as error:
            raise SimulatorUnavailable(str(error)) from error
        await self.speaker.hear(reply, appraisal)
        return appraisal

    async def speak(self, emotion: int) -> Utterance:
        return self._said(await self.speaker.speak(emotion))

    def _said(self, utterance: Utterance) -> Utterance:
        self._message = utterance.text
        return utterance
