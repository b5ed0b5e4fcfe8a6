"""Talks of a person with two models that answer the same messages, and whose names are hidden.

Both replies are shown at once, so that the faster model is not known by its speed. What went wrong with a model is written down for the
report's reader; the person is told without the words of the error, which often name the model.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args
from uuid import uuid4

from rlver.components.domain.protocols import ContextFull, Policy, PolicySession
from rlver.components.endpoint.chat import BudgetExceeded, EndpointRefused
from rlver.tasks.studies.blind.answer_file import AnswerFile
from rlver.tasks.studies.blind.answers import PersonSaid, Replied, Row, Side, Spoken, TalkBegun, TalkVerdict
from rlver.tasks.studies.blind.comparing import as_answered, other, preference_of

MOST_MESSAGES = 200  # of a talk; the whole of it is sent after each
_HAN = re.compile("[\u3400-\u9fff]")
TOO_LONG = "The talk has become too long for this side. Say which side you prefer, or start a new talk."
NO_REPLY = "This side could not reply. You can go on: write again."
NEVER_CAME = "There is no reply to this message."
RESTARTED = "This talk cannot be gone on with, because the page's server was restarted: judge it, or start a new one."
SET_ASIDE = "This talk was ended to make room for other people, because it had been quiet for longest: judge it, or start a new one."
NO_ROOM = "As many people as there is room for are waiting for replies: send it again in a moment."
MUCH_SAID = f"{MOST_MESSAGES} messages are as many as a talk may have: judge it, or start a new one."
NO_MORE = "No new talk can be begun, because a model replies to nobody any more: tell whoever opened this page."
OTHER_WORDS = "A message with this number was other words: send it again."
OVER = "This talk is over, perhaps because another one was begun in another tab: load the page again."

_OF_ALL = tuple(f"{kind.__name__}:" for kind in (BudgetExceeded, EndpointRefused))  # errors that meet every talk


class NoSuchTalk(ValueError):
    """The talk is another person's, or cannot be gone on with; the message says what to do."""


class TalkSpeaker(NamedTuple):
    """A model of a talk: what it is called in the answers, and who replies."""

    name: str
    policy: Policy


@dataclass
class _Talk:
    begun: TalkBegun
    sessions: Mapping[Side, PolicySession] | None  # None: it cannot be gone on with
    why_ended: str = RESTARTED
    said: dict[str, PersonSaid] = field(default_factory=dict)
    replied: dict[str, Replied] = field(default_factory=dict)
    unsaved: Replied | None = None  # the disk refused it
    verdict: TalkVerdict | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def take(self, row: Row) -> None:
        if isinstance(row, PersonSaid):
            self.said[row.message_id] = row
        elif isinstance(row, Replied):
            self.replied[row.message_id] = row
            self.unsaved = None
        elif isinstance(row, TalkVerdict):
            self.verdict = row


class Talking:
    """One open talk a person. `most_open` talks are kept going: for one more the one that was quiet for longest ends, and can be judged."""

    def __init__(
        self,
        speakers: Mapping[Side, TalkSpeaker],
        answers: AnswerFile,
        now: Callable[[], str],
        seed: int,
        most_open: int,
        say: Callable[[str], None],
    ) -> None:
        self._speakers, self._answers, self._now, self._seed, self._most_open = speakers, answers, now, seed, most_open
        self._say = say
        self._no_more = False  # a model refused what it will refuse again
        self._talks: dict[str, _Talk] = {}
        self._last: dict[str, str] = {}  # talk of a person
        self._talk_of: dict[str, str] = {}  # of a message
        self._seen: set[tuple[object, ...]] = set()
        for row in answers.rows:
            self._take(row)

    def state(self, rater: str) -> dict[str, Any]:
        """The person's last talk as they may see it; an empty one where they have none."""
        talk = self._talks.get(self._last.get(rater, ""))
        if talk is None:
            return {"talk": None, "messages": [], "live": True, "ended": None, "verdict": None}
        left = talk.begun.left
        messages = []
        for message_id, said in talk.said.items():
            replied = talk.replied.get(message_id)
            sides = {"left": _shown(replied, left, talk), "right": _shown(replied, other(left), talk)}
            messages.append({"message_id": message_id, "user": said.text, **sides})
        return {
            "talk": talk.begun.talk_id,
            "messages": messages,
            "live": talk.sessions is not None,
            "ended": talk.why_ended if talk.sessions is None else None,
            "verdict": as_answered(talk.verdict, left),
        }

    async def speak(self, rater: str, talk_id: str | None, message_id: str, text: str) -> dict[str, Any]:
        """Both models hear `text` and reply; without a talk one is begun. A message that is here already is not said twice.

        Raises NoSuchTalk or NotSaved.
        """
        talk_id = self._talk_of.get(message_id, talk_id)
        talk = self._begin(rater, text) if talk_id is None else self._of(rater, talk_id)
        async with talk.turn:
            self._save_replies(talk)
            if message_id not in talk.said:
                if talk.sessions is None:
                    raise NoSuchTalk(talk.why_ended)
                if len(talk.said) == MOST_MESSAGES:
                    raise NoSuchTalk(MUCH_SAID)
                said = PersonSaid(at=self._now(), talk_id=talk.begun.talk_id, message_id=message_id, text=text)
                self._write(said)
                a, b = await asyncio.gather(_reply(talk.sessions["a"], said.text), _reply(talk.sessions["b"], said.text))
                if a.error or b.error:
                    self._say(f"a model did not reply; why stands in {self._answers.path}")
                if any(error.startswith(_OF_ALL) for error in (a.error, b.error) if error):
                    self._no_more = True
                    self._say("it will reply to nobody: no new talks are begun until this is mended and the page opened again")
                talk.unsaved = Replied(at=self._now(), talk_id=talk.begun.talk_id, message_id=message_id, a=a, b=b)
                self._save_replies(talk)
            elif talk.said[message_id].text != text:
                raise NoSuchTalk(OTHER_WORDS)
        return self.state(rater)

    def judge(self, rater: str, talk_id: str, answer_id: str, choice: str, confidence: int, reason: str) -> dict[str, Any]:
        """Keep what the person prefers; the last answer counts. Raises NoSuchTalk or NotSaved."""
        talk = self._of(rater, talk_id)
        self._save_replies(talk)
        if not talk.replied:
            raise NoSuchTalk("nobody has replied in this talk yet")
        verdict = TalkVerdict(
            at=self._now(),
            answer_id=answer_id,
            rater=rater,
            talk_id=talk_id,
            preference=preference_of(choice, talk.begun.left),
            confidence=confidence,
            reason=reason,
        )
        if verdict.content not in self._seen:
            self._write(verdict)
        return self.state(rater)

    def leave(self, rater: str) -> dict[str, Any]:
        """The person's next message begins a new talk. Raises NoSuchTalk while replies are on their way."""
        talk = self._left(rater)
        if talk is not None:
            _close(talk, OVER)
            del self._last[rater]
        return self.state(rater)

    def _left(self, rater: str) -> _Talk | None:
        talk = self._talks.get(self._last.get(rater, ""))
        if talk is not None and talk.turn.locked():
            raise NoSuchTalk("wait for the replies, then start a new talk")
        if talk is not None:
            self._save_replies(talk)
        return talk

    def _begin(self, rater: str, text: str) -> _Talk:
        """Nothing has changed if it is not saved: the talk before is still the person's."""
        if self._no_more:
            raise NoSuchTalk(NO_MORE)
        left_behind = self._left(rater)
        making_room = self._quiet_for_longest(left_behind)
        talk_id = uuid4().hex
        left: Side = random.Random(f"{self._seed}|{talk_id}").choice(get_args(Side))
        names = {side: speaker.name for side, speaker in self._speakers.items()}
        self._write(TalkBegun(at=self._now(), rater=rater, talk_id=talk_id, a=names["a"], b=names["b"], left=left))
        for quiet in making_room:
            _close(quiet, SET_ASIDE)
        if left_behind is not None:
            _close(left_behind, OVER)
        talk = self._talks[talk_id]
        language = "zh" if _HAN.search(text) else "en"
        talk.sessions = {side: speaker.policy.session(f"blind/{talk_id}", self._seed, language) for side, speaker in self._speakers.items()}
        return talk

    def _quiet_for_longest(self, left_behind: _Talk | None) -> list[_Talk]:
        """Those that must end for one more talk. Raises NoSuchTalk where too many wait for replies."""
        going = [talk for talk in self._talks.values() if talk.sessions is not None and talk is not left_behind]
        too_many = max(0, len(going) + 1 - self._most_open)
        quiet = [talk for talk in going if not talk.turn.locked()][:too_many]
        if len(quiet) < too_many:
            raise NoSuchTalk(NO_ROOM)
        return quiet

    def _of(self, rater: str, talk_id: str) -> _Talk:
        if self._last.get(rater) != talk_id:
            raise NoSuchTalk(OVER)
        return self._talks[talk_id]

    def _save_replies(self, talk: _Talk) -> None:
        """Those that were not yet, because the disk was full."""
        if talk.unsaved is not None:
            self._write(talk.unsaved)

    def _write(self, row: TalkBegun | PersonSaid | Replied | TalkVerdict) -> None:
        self._answers.add(row)
        self._take(row)

    def _take(self, row: Row) -> None:
        if isinstance(row, TalkBegun):
            self._talks[row.talk_id] = _Talk(row, None)
            self._last[row.rater] = row.talk_id
        elif isinstance(row, PersonSaid | Replied | TalkVerdict) and row.talk_id in self._talks:
            self._talks[row.talk_id].take(row)
            self._talks[row.talk_id] = self._talks.pop(row.talk_id)  # in the order of the last word
            if isinstance(row, PersonSaid):
                self._talk_of[row.message_id] = row.talk_id
            if isinstance(row, TalkVerdict):
                self._seen.add(row.content)


async def _reply(session: PolicySession, text: str) -> Spoken:
    """What one model says; a model that fails is data."""
    try:
        said = (await session.reply(text)).said
    except ContextFull as error:
        return Spoken(reply=None, error=f"ContextFull: {error}")
    except Exception as error:  # whatever a model's library raises must not end the talk with the other one
        return Spoken(reply=None, error=f"{type(error).__name__}: {' '.join(str(error).split())}")
    return Spoken(reply=said.reply, think=said.think)


def _shown(replied: Replied | None, side: Side, talk: _Talk) -> dict[str, str | None]:
    """A reply without its thought, or one line instead of it."""
    if replied is None:
        return {"reply": None, "error": None if talk.turn.locked() else NEVER_CAME}
    spoken = replied.a if side == "a" else replied.b
    if spoken.error is None:
        return {"reply": spoken.reply, "error": None}
    return {"reply": None, "error": TOO_LONG if spoken.error.startswith("ContextFull") else NO_REPLY}


def _close(talk: _Talk, why: str) -> None:
    for session in (talk.sessions or {}).values():
        session.close()
    talk.sessions, talk.why_ended = None, why
