"""The appraiser `special`: users of a kind by the rule of this room, everybody else as the scripted user. It needs no weights.

The acts are those that the scripted user's patterns find, each with probability 1, so it hears as little as they do; the rule itself takes the
probabilities of any reader (rule.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlver.components.domain.persona import PersonaKind
from rlver.components.domain.protocols import About, Appraiser, Exchange
from rlver.components.domain.transcript import Appraisal, Evidence, SimulatorTag, Turn
from rlver.components.users.scripted.appraiser import Listener, appraisal, length, listener_of, repeated, repeats
from rlver.components.users.scripted.latin import no_latin_reply, words_in
from rlver.components.users.scripted.new import new_in
from rlver.components.users.scripted.patterns import GENERIC, SERVING
from rlver.components.users.scripted.reading import HARMFUL, content_of, read_reply
from rlver.components.users.scripted.simulator import ScriptedAppraiser, english_only
from rlver.components.users.special.rule import VERSION, Answered, Read, weigh

KIND = "special"
ACTS = (*SERVING, *GENERIC, *HARMFUL)
_FULL_WORDS = 8  # words from which a reply can be specific


@dataclass(frozen=True)
class ReadActs:
    """What patterns find, in the form of probabilities (rule.HeardActs)."""

    acts: Mapping[str, float]
    quality: Mapping[str, float]
    value: float

    @staticmethod
    def of(reply: str, told: str) -> ReadActs:
        reading = read_reply(reply)
        found = reading.acts
        harms = not found.isdisjoint(HARMFUL)
        quality = {
            "coherent": float(reading.is_english),
            "specific": min(1.0, reading.word_count / _FULL_WORDS),
            "picks_up": float(bool(reading.content & content_of(told))),
            "sincere": float(not harms),
        }
        return ReadActs({act: float(act in found) for act in ACTS}, quality, -1.0 if harms else 0.0)


@dataclass(frozen=True)
class SpecialAppraiser:
    """Users of one difficulty, which matters to users without a kind only. Reads English only."""

    difficulty: str

    def __post_init__(self) -> None:
        ScriptedAppraiser(self.difficulty)

    @property
    def name(self) -> str:
        return f"{KIND}:{self.difficulty}"

    @property
    def tag(self) -> SimulatorTag:
        return SimulatorTag(kind=KIND, difficulty=self.difficulty, version=f"{VERSION} {ScriptedAppraiser(self.difficulty).tag.version}")

    def appraiser(self, about: About, seed: int = 0) -> Appraiser:
        if about.persona is None or about.persona.kind is None:
            return ScriptedAppraiser(self.difficulty).appraiser(about, seed)
        return _OfAKind(about.persona.kind, listener_of(about))

    def refusal(self, turns: Sequence[Turn]) -> str | None:
        return english_only(turns, "the special appraiser")


@dataclass(frozen=True)
class _OfAKind:
    kind: PersonaKind
    listener: Listener

    async def appraise(self, exchanges: Sequence[Exchange], emotion: int) -> Appraisal:
        *earlier, last = exchanges
        refusal = no_latin_reply(last.reply, last.user)
        return appraisal(self.listener.persona_class, [refusal] if refusal else self._weigh(earlier, last))

    def _weigh(self, earlier: Sequence[Exchange], last: Exchange) -> list[Evidence]:
        told, answered = "", list[Answered]()
        for number, one in enumerate((*earlier, last)):
            told = f"{told} {one.user}"
            new = new_in(one.reply, tuple(before.reply for before in earlier[:number]))
            answered.append(Answered(one.user, *(Read(text, ReadActs.of(text, told)) for text in (one.reply, new))))
        reading = read_reply(last.reply)
        said_before = repeated(reading, [read_reply(one.reply) for one in earlier])
        return [*weigh(self.kind, answered[-1], answered[:-1]), *repeats(said_before), *length(words_in(last.reply))]
