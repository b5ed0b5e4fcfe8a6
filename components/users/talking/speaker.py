"""The talking speaker: what the user says next, a pure function of persona, seed and what was said and felt so far.

A message begins with what the last reply did to the user, goes on with the story and often hints at the need. The story is the scripted user's, piece
by piece in its order; only a line that answers a question, or tells of advice that was tried, comes before its time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from rlver.components.domain.emotion import tier
from rlver.components.domain.persona import Persona, Story
from rlver.components.domain.protocols import Utterance
from rlver.components.domain.transcript import Appraisal, SimulatorTag
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.components.users.talking.reaction import Reacting, Reaction
from rlver.components.users.talking.wordings import Draws, hints, version, wordings

KIND = "talking"


@dataclass(frozen=True)
class Manner:
    """How much a style says at a time: shares of short and of long messages, the rest is in between; and how often it adds words of its own."""

    short: float
    long: float
    register: float = 0.0


MANNERS = {
    "plain": Manner(0.25, 0.2),
    "terse": Manner(0.75, 0.0, 0.35),
    "rambling": Manner(0.05, 0.6, 0.7),
    "dry": Manner(0.35, 0.1, 0.35),
    "warm": Manner(0.1, 0.35, 0.35),
    "formal": Manner(0.1, 0.3, 0.4),
}
_AFTER_THE_STORY = ("dry", "warm")  # styles whose own words come after the story; those of the others lead up to it
_NO_SUBJECT = re.compile(r"^(?:I(?:['\u2019](?:ve|d|m))? (?:just |really )?|(?:It|There|That)(?:['\u2019]s| is| was| were| are) )(?=\w{2})")
_CLAUSE = re.compile(r", (?:and|but|so) (?=\w)")
_ENDS = (".", "!", "?", ":", "\u2026", '"', "'", ")")


@dataclass(frozen=True)
class TalkingSpeakers:
    """Users of one difficulty, which says how often they let the need show."""

    difficulty: str

    def __post_init__(self) -> None:
        if self.difficulty not in DIFFICULTIES:
            raise ValueError(f"unknown difficulty {self.difficulty!r}: choose one of {', '.join(DIFFICULTIES)}")

    @property
    def tag(self) -> SimulatorTag:
        return SimulatorTag(kind=KIND, difficulty=self.difficulty, version=version())

    def speaker(self, persona: Persona, seed: int) -> TalkingSpeaker:
        return TalkingSpeaker(persona, seed, DIFFICULTIES[self.difficulty].cue_rate)


@dataclass
class TalkingSpeaker:
    """One user for one dialogue: remembers what it told, in which words, and the advice it was given."""

    persona: Persona
    seed: int
    cue_rate: float
    _told: list[int] = field(default_factory=list)  # numbers of story lines
    _messages: int = 0
    _heard: tuple[str, Appraisal] | None = None

    def __post_init__(self) -> None:
        self._draws = Draws(self.persona, self.seed)

    async def open(self) -> Utterance:
        """Raises ValueError for a persona that cannot be played."""
        self._reacting = Reacting(_story(self.persona), self._draws)
        self._messages = 1
        return Utterance(str(self.persona.first_line), cue=False)

    async def hear(self, reply: str, appraisal: Appraisal) -> None:
        self._heard = reply, appraisal

    async def speak(self, emotion: int) -> Utterance:
        turn, self._messages = self._messages, self._messages + 1
        now = tier(emotion)
        if now in ("S", "F"):
            goodbyes = wordings()["goodbyes"]["glad" if now == "S" else "hurt"]
            return Utterance(self._draws.words(goodbyes, "goodbye"), cue=False, wants_to_end=True)
        reaction = self._reacting.to(*self._heard, self._told, turn) if self._heard else Reaction("")
        presses_now = self.persona.kind is not None and turn == 1  # a user of a kind does so at once
        has_cue = self._draws.uniform(f"cue:{turn}") < self.cue_rate or presses_now
        pieces = [one if one.endswith(_ENDS) else f"{one}." for one in self._pieces(reaction, turn, has_cue) if one]
        return Utterance(" ".join(pieces), cue=has_cue)

    def _pieces(self, reaction: Reaction, turn: int, has_cue: bool) -> Iterator[str]:
        """Reaction first; then story, cue and words of the style, as many as this message has."""
        manner, style = MANNERS[self.persona.style or "plain"], self.persona.style or "plain"
        length = self._draws.uniform(f"length:{turn}")
        is_short, is_long = length < manner.short, length >= 1 - manner.long
        yield reaction.first
        cue = self._draws.words(hints(self.persona), "cue") if has_cue else ""
        if is_short and reaction.line is None and reaction.after is None:
            yield cue or clipped(self._line(None))
            return
        own = ""
        if self._draws.uniform(f"register:{turn}") < manner.register:
            own = self._draws.words(wordings()["register"][style], "register")
        line = self._line(reaction.line)
        told = [clipped(line) if is_short or style == "terse" else line]
        if is_long:
            told.append(self._line(None))
        if self._draws.uniform(f"order:{turn}") < 0.25 and reaction.line is None:
            told.insert(0, cue)
        else:
            told.append(cue)
        yield from [*told, own] if style in _AFTER_THE_STORY else [own, *told]
        yield reaction.after or ""

    def _line(self, wanted: int | None) -> str:
        """The story line `wanted`, else the next one that was not told; when all were, how it stands."""
        lines = _story(self.persona).lines
        left = [number for number in range(len(lines)) if number not in self._told]
        if not left:
            return self._draws.words(wordings()["afterwards"], "afterwards")
        number = left[0] if wanted is None else wanted
        self._told.append(number)
        return lines[number]


def clipped(line: str) -> str:
    """`line` as one types it who is short of breath: no leading subject, a sentence for each clause."""
    first, *rest = _CLAUSE.split(_NO_SUBJECT.sub("", line))
    return ". ".join(one[:1].upper() + one[1:] for one in (first, *rest))


def _story(persona: Persona) -> Story:
    if persona.language != "en":
        raise ValueError(
            f"persona {persona.persona_id}: the talking user speaks English only; for {persona.language} set simulator.kind: llm"
        )
    if persona.first_line is None:
        raise ValueError(f"persona {persona.persona_id}: the talking speaker needs a first_line")
    if persona.story is None:
        raise ValueError(f"persona {persona.persona_id}: the talking speaker needs a structured story; imported text has none")
    return persona.story
