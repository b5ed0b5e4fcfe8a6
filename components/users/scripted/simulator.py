"""The scripted user: its appraiser, its speaker, the simulator of both, and the version that every transcript carries.

What the user says next: a reaction to the last reply, the mood of the talk, the next piece of the story, and often a cue to the need.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any

from ruamel.yaml import YAML

from rlver.components.domain.emotion import tier
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import About, Exchange, SimulatedUser, Utterance
from rlver.components.domain.transcript import Appraisal, SimulatorTag, Turn
from rlver.components.users.scripted.appraiser import Listener, appraise, listener_of
from rlver.components.users.scripted.effects import DIFFICULTIES, Difficulty
from rlver.components.users.scripted.reading import read_reply

VERSION = "scripted-3"  # raise it whenever a recorded emotion or message could come out differently


_FEW_WORDS = 20  # fewer words of a user, none of them common, may be slang and not another language


@dataclass(frozen=True)
class _Scripted:
    """Users of one difficulty."""

    difficulty: str

    def __post_init__(self) -> None:
        if self.difficulty not in DIFFICULTIES:
            raise ValueError(f"unknown difficulty {self.difficulty!r}: choose one of {', '.join(DIFFICULTIES)}")

    @property
    def tag(self) -> SimulatorTag:
        return SimulatorTag(kind="scripted", difficulty=self.difficulty, version=VERSION)


class ScriptedSimulator(_Scripted):
    """Deterministic given persona, seed and replies; needs personas with a structured story."""

    def session(self, persona: Persona, seed: int) -> SimulatedUser:
        return SimulatedUser(ScriptedAppraiser(self.difficulty).appraiser(About(persona), seed), self.speaker(persona, seed))

    def speaker(self, persona: Persona, seed: int) -> ScriptedSpeaker:
        return ScriptedSpeaker(persona, seed, DIFFICULTIES[self.difficulty].cue_rate)


class ScriptedAppraiser(_Scripted):
    """The explicit rules; emotion and seed play no part in them. Reads English only."""

    @property
    def name(self) -> str:
        return f"scripted:{self.difficulty}"

    def appraiser(self, about: About, seed: int = 0) -> _Listening:
        return _Listening(listener_of(about), DIFFICULTIES[self.difficulty])

    def refusal(self, turns: Sequence[Turn]) -> str | None:
        return english_only(turns, "the scripted appraiser")


def english_only(turns: Sequence[Turn], who: str) -> str | None:
    """Why an appraiser of English cannot read a user; None for one who speaks English. A few words of slang say little, so the replies are read
    with them; smileys and silence say nothing. What a policy writes is its own business otherwise, and is judged."""
    said = "\n".join(turn.user for turn in turns)
    letters = [character for character in said if character.isalpha()]
    reading = read_reply(said)
    if not letters or (reading.word_count and reading.is_english):
        return None
    is_short = reading.word_count < _FEW_WORDS and sum(map(str.isascii, letters)) > len(letters) / 2
    if is_short and read_reply("\n".join([said, *(turn.assistant for turn in turns)])).is_english:
        return None
    return f"{who} reads English only"


@dataclass(frozen=True)
class _Listening:
    listener: Listener
    difficulty: Difficulty

    async def appraise(self, exchanges: Sequence[Exchange], emotion: int) -> Appraisal:
        *earlier, last = exchanges
        return appraise(self.listener, self.difficulty, earlier, last.user, last.reply)


@dataclass
class ScriptedSpeaker:
    """Tells the persona's story in one dialogue, and remembers what it said, what of it was a cue, and the last change."""

    persona: Persona
    seed: int
    cue_rate: float
    _messages: list[str] = field(default_factory=list)
    _cues: list[bool] = field(default_factory=list)
    _last_change: int = 0

    async def open(self) -> Utterance:
        return self._said(opening(self.persona))

    async def hear(self, reply: str, appraisal: Appraisal) -> None:
        self._last_change = appraisal.change

    async def speak(self, emotion: int) -> Utterance:
        return self._said(next_message(self.persona, self.seed, self.cue_rate, self._messages, self._cues, self._last_change, emotion))

    def _said(self, utterance: Utterance) -> Utterance:
        self._messages.append(utterance.text)
        self._cues.append(utterance.cue is True)
        return utterance


_GOODBYE = {
    "S": ("I feel so much lighter now. Thank you, truly. Bye for now.", "That was all I hoped for. Thanks, and goodbye."),
    "F": ("I can't do this any more. Bye.", "This is not helping. I'm done here."),
}
_MOOD_RATE = 0.3  # share of the messages in tiers A and C that say how the talk feels
_WHEN_THE_STORY_IS_TOLD = (
    "That is where it stands.", "I keep coming back to it.", "And so it goes on.", "It is still the same today.", "I think of it every morning.",
    "It was on my mind again at breakfast.", "Nothing has moved since.", "I look at the clock a lot.", "The rest you know by now.",
    "It follows me around the house.", "I tried to read and could not.", "I went for a walk and it came along.",
)  # fmt: skip


@cache
def _phrases(name: str) -> Any:
    return YAML(typ="safe").load(files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))


def opening(persona: Persona) -> Utterance:
    """The persona's fixed first line."""
    if persona.first_line is None:
        raise ValueError(f"persona {persona.persona_id}: the scripted speaker needs a first_line")
    if persona.language != "en":
        raise ValueError(
            f"persona {persona.persona_id}: the scripted user speaks English only; for {persona.language} set simulator.kind: llm"
        )
    return Utterance(persona.first_line, cue=False)


def next_message(
    persona: Persona, seed: int, cue_rate: float, user_messages: Sequence[str], cues: Sequence[bool], change: int, emotion: int
) -> Utterance:
    """The message after the `len(user_messages)`-th appraisal.

    `cues` says of each earlier message whether it carried a cue, `change` is the last change of emotion, `emotion` its present value.
    """
    now = tier(emotion)
    if now in _GOODBYE:
        return Utterance(_order(_GOODBYE[now], persona, seed, "goodbye")[0], cue=False, wants_to_end=True)
    turn = len(user_messages)
    said = "\n".join(user_messages)
    reaction = _unsaid(_order(_reactions(persona, change), persona, seed, "reaction"), said, turn)
    story = _story_piece(persona, seed, turn)
    has_cue = _uniform(persona, seed, f"cue:{turn}") < cue_rate
    parts = [reaction, *_mood(now, persona, seed, turn, said), *story]
    if has_cue:
        parts.append(_cue(persona, seed, sum(cues)))
    return Utterance(_in_style(parts, persona, seed, turn), cue=has_cue)


def _reactions(persona: Persona, change: int) -> list[str]:
    direction = "way_up" if change >= 6 else "up" if change > 0 else "flat" if change == 0 else "down" if change > -6 else "way_down"
    phrases: list[str] = _phrases("reactions")[direction][str(persona.persona_class)]
    return phrases


def _mood(now: str, persona: Persona, seed: int, turn: int, said: str) -> list[str]:
    """Now and then, how the whole talk feels: brighter in tier A, darker in C."""
    moods = _phrases("moods")
    if now not in moods or _uniform(persona, seed, f"mood:{turn}") >= _MOOD_RATE:
        return []
    return [_unsaid(_order(moods[now], persona, seed, "mood"), said, turn)]


def _story_piece(persona: Persona, seed: int, turn: int) -> list[str]:
    if persona.story is None:
        raise ValueError(f"persona {persona.persona_id}: the scripted speaker needs a structured story; imported text has none")
    lines = persona.story.lines
    if turn <= len(lines):
        return [lines[turn - 1]]
    spare = _order(_WHEN_THE_STORY_IS_TOLD, persona, seed, "spare")
    beyond = turn - len(lines) - 1
    rounds, index = divmod(beyond, len(spare))
    return [spare[index] if rounds == 0 else f"{spare[index]} Day {rounds + 1} of this."]


def _cue(persona: Persona, seed: int, cues_so_far: int) -> str:
    cues = _order(_phrases("cues")[str(persona.hidden_need)], persona, seed, "cues")
    role = persona.story.other.role if persona.story else "friend"
    return cues[cues_so_far % len(cues)].format(role=role)


def _in_style(parts: list[str], persona: Persona, seed: int, turn: int) -> str:
    """How this persona talks. Styles change the wording around the content, never the story line or the cue."""
    reaction, *rest = parts
    u = _uniform(persona, seed, f"style:{turn}")
    if persona.style == "terse" and u < 0.5:
        parts = rest
    elif persona.style == "rambling" and u < 0.5:
        parts = [reaction, "Anyway, so." if u < 0.25 else "I mean.", *rest]
    elif persona.style == "dry" and u < 0.3:
        parts = [reaction, *rest, "Lovely."]
    elif persona.style == "warm" and u < 0.3:
        parts = [reaction, *rest, "Bless."]
    elif persona.style == "formal" and u < 0.3:
        parts = ["To be precise:", *rest] if u < 0.1 else [reaction, "If I may.", *rest]
    return " ".join(parts)


def _unsaid(candidates: list[str], said: str, turn: int) -> str:
    return next((phrase for phrase in candidates if phrase not in said), candidates[turn % len(candidates)])


def _order(options: Sequence[str], persona: Persona, seed: int, purpose: str) -> list[str]:
    """`options` in an order fixed by persona, seed and purpose."""
    shuffled = list(options)
    Random(_digest(persona, seed, purpose)).shuffle(shuffled)
    return shuffled


def _uniform(persona: Persona, seed: int, purpose: str) -> float:
    return _digest(persona, seed, purpose) / 2**64


def _digest(persona: Persona, seed: int, purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{persona.persona_id}|{seed}|{purpose}".encode()).digest()[:8], "big")
