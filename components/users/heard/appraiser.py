"""The appraiser that hears English: the four steps of the scripted one, on probabilities in place of patterns.

Every reason names what was heard, how sure that is, the sentence that carries it and the points it moves; the change is the clamped sum of the
points, rounded. Need, class, traits, repetition and length weigh as they do for the scripted appraiser (users/scripted/effects.py). A reply is heard
twice where some of it was said before: what costs is of the whole reply, what pays is of what is new (new.py).
"""

from __future__ import annotations

import asyncio
import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from rlver.components.domain.acts import SURE
from rlver.components.domain.emotion import added
from rlver.components.domain.persona import PersonaKind
from rlver.components.domain.protocols import About, AppraiserKind, Exchange, Rounding
from rlver.components.domain.transcript import Appraisal, Evidence, SimulatorTag, Turn
from rlver.components.users.heard.reading import NOTHING, Heard, Reader, reader
from rlver.components.users.scripted.appraiser import Listener, appraisal, length, listener_of, repeated, repeats, tables_of
from rlver.components.users.scripted.effects import DIFFICULTIES, HARM, HEARING_ACTS, NEAR, NEEDS_HEARING_FIRST, SERVES, Difficulty
from rlver.components.users.scripted.latin import no_latin_reply, words_in
from rlver.components.users.scripted.new import new_in
from rlver.components.users.scripted.patterns import GENERIC, SERVING
from rlver.components.users.scripted.reading import read_reply
from rlver.components.users.scripted.simulator import english_only
from rlver.components.users.special.rule import VERSION as SPECIAL
from rlver.components.users.special.rule import Answered, Read, harms, weigh
from rlver.components.users.special.signs import Sign

KIND = "heard"
MANNER = 1.5  # points for each step of the value: how it is said, whatever it does
UNKNOWN_NEED = 3.0  # the same where nobody knows the need
BESIDE_THE_POINT = -6  # of a reply that is no answer to what was said
ECHO = 0.85  # of a reply's word pairs; one that says it again and then does something is heard
SAME_MEANING = 0.93  # cosine of two replies that say the same
SAID_AGAIN = -5
BREAKS_OFF = -4
WHOLE = 0.05  # probability that a sentence ends there, from which on a reply needs no mark at its end
_MARKS, _SYMBOLS, _UNSEEN = (
    frozenset(".!?\u2026:;)]\"'\u201d\u2019\u00bb*~\u3002\uff01\uff1f"),
    ("So", "Sk"),
    ("Cf", "Mn", "Me", "Zs", "Zl", "Zp", "Cc"),
)
_PICTURES = "\U0001f000"  # from here on: which of them Python knows as symbols depends on its version
_LEAST = 0.2  # points; what moves less is no reason
_SOME = 0.15  # probability below which an act is not spoken of


@dataclass(frozen=True)
class HeardAppraiser:
    """Users of one difficulty. Reads English only."""

    difficulty: str

    def __post_init__(self) -> None:
        if self.difficulty not in DIFFICULTIES:
            raise ValueError(f"unknown difficulty {self.difficulty!r}: choose {' or '.join(DIFFICULTIES)}")

    @property
    def name(self) -> str:
        return f"{KIND}:{self.difficulty}"

    @property
    def tag(self) -> SimulatorTag:
        return SimulatorTag(kind=KIND, difficulty=self.difficulty, version=f"{reader().version} {SPECIAL}")

    def appraiser(self, about: About, seed: int = 0) -> Hearing:
        kind = None if about.persona is None else about.persona.kind
        return Hearing(listener_of(about), DIFFICULTIES[self.difficulty], reader(), kind)

    def beside(self, recorded: Sequence[Appraisal], rounded: list[Rounding]) -> AppraiserKind:
        """See Rounds in protocols.py, and rounding.py."""
        from rlver.components.users.heard.rounding import BesideRecorded

        return BesideRecorded(self.difficulty, recorded, rounded)

    def refusal(self, turns: Sequence[Turn]) -> str | None:
        return english_only(turns, "the hearing appraiser")


@dataclass(frozen=True)
class Hearing:
    """One user, for one dialogue."""

    listener: Listener
    difficulty: Difficulty
    reader: Reader
    kind: PersonaKind | None = None  # of a user who is served by another rule than a need's (users/special)
    otherwise: Mapping[int, Heard] = field(default_factory=dict)  # replies, by number from 0, that the reader does not hear (rounding.py)

    async def appraise(self, exchanges: Sequence[Exchange], emotion: int) -> Appraisal:
        *earlier, last = exchanges
        refusal = no_latin_reply(last.reply, last.user, ECHO)
        if not refusal:
            asked = self.ahead(exchanges)
            try:
                await asyncio.sleep(0)  # other dialogues ask for theirs before this one waits
            except BaseException:
                for reply in asked:
                    reply.cancel()
                raise
        evidence = (
            [refusal] if refusal else [one for one in self._weigh(earlier, last) if one.step == "content" or abs(one.points) >= _LEAST]
        )
        return appraisal(self.listener.persona_class, evidence)

    def ahead(self, exchanges: Sequence[Exchange]) -> list[Future[Heard]]:
        """Ask the reader for all that will be heard in these replies."""
        asked = []
        for number, one in enumerate(exchanges):
            told = " ".join(before.user for before in exchanges[:number])
            new = new_in(one.reply, tuple(before.reply for before in exchanges[:number]))
            whole = one.reply if number not in self.otherwise else ""
            asked += [self.reader.soon(text, one.user, told) for text in dict.fromkeys((whole, new)) if text]
        return asked

    def hear(self, exchanges: Sequence[Exchange], number: int) -> Heard:
        one = exchanges[number]
        if number in self.otherwise:
            return self.otherwise[number]
        return self.reader.hear(one.reply, one.user, " ".join(before.user for before in exchanges[:number]))

    def paid(self, exchanges: Sequence[Exchange], number: int) -> Heard:
        """What that reply is paid for and makes believed: no more than is heard in it, and in what of it is new."""
        one, whole = exchanges[number], self.hear(exchanges, number)
        new, alone = self.alone(exchanges, number)
        if new == one.reply:
            return whole
        acts, quality = (
            {name: min(both[name], of[name]) for name in both} for both, of in ((whole.acts, alone.acts), (whole.quality, alone.quality))
        )
        value = min(whole.value, max(0.0, alone.value))  # what is left of a cut sentence is no reason to be hurt
        spans = {**whole.spans, **{name: span for name, span in alone.spans.items() if span in one.reply}}
        return replace(whole, acts=acts, quality=quality, value=value, helps=min(whole.helps, alone.helps), spans=spans)

    def alone(self, exchanges: Sequence[Exchange], number: int) -> tuple[str, Heard]:
        """What of that reply is new, and what is heard in it alone."""
        one = exchanges[number]
        new = new_in(one.reply, tuple(before.reply for before in exchanges[:number]))
        if new == one.reply:
            return new, self.hear(exchanges, number)
        return new, self.reader.hear(new, one.user, " ".join(before.user for before in exchanges[:number])) if new else NOTHING

    def _weigh(self, earlier: Sequence[Exchange], last: Exchange) -> Iterator[Evidence]:
        exchanges = [*earlier, last]
        *before, now = (self.hear(exchanges, number) for number in range(len(exchanges)))
        if self.kind is None:
            for act, probability in now.acts.items():
                if probability >= SURE:
                    yield Evidence(step="content", what=act, span=now.spans[act], probability=probability)
            *paid_before, paid = (self.paid(exchanges, number) for number in range(len(exchanges)))
            yield from self._target(paid_before, now, paid)
            yield from self._character(now, paid)
        else:
            answered = [
                Answered(
                    one.user, *(Read(text, read, signs_of(read)) for text, read in ((one.reply, heard), self.alone(exchanges, number)))
                )
                for number, (one, heard) in enumerate(zip(exchanges, (*before, now), strict=True))
            ]
            yield from weigh(self.kind, answered[-1], answered[:-1])
        yield from _again(before, now, earlier, last)
        yield from length(words_in(last.reply))
        yield from breaks_off(last.reply, now)

    def _target(self, before: Sequence[Heard], whole: Heard, now: Heard) -> Iterator[Evidence]:
        """Does what the reply does serve the hidden need, now, and how is it done? `whole` is what is heard in it, `now` and `before` what is paid."""
        acts, quality, pays = whole.acts, now.quality, self.difficulty
        for act, points in harms(acts).items():
            yield self._found(act, act, points, whole)
        unharmed = 1 - max(acts[act] for act in HARM)
        need = self.listener.need
        serving = {act: now.acts[act] for act in SERVING}
        likeliest = max(serving, key=lambda act: serving[act])
        helps = min(now.helps, unharmed, quality["coherent"])
        if need is None:
            yield self._found("may_serve", likeliest, 2 * min(serving[likeliest], helps), now)
            taken = now.value * quality["coherent"] if now.value > 0 else now.value
            yield Evidence(step="target", what="manner", points=round(UNKNOWN_NEED * taken, 2))
        else:
            asked = SERVES[need]
            sure = min(serving[asked], helps, self._believed(asked, before, now))
            yield self._found("serves_need", asked, sure * pays.serves, now)
            yield self._found("picks_up", asked, min(sure, quality["picks_up"]) * pays.grounded, now)
            others = {act: probability for act, probability in serving.items() if act != asked}
            near = max((others[act] for act in NEAR[need]), default=0.0)
            far = max((act for act in others if act not in NEAR[need]), key=lambda act: acts[act])
            yield self._found("near_need", max(NEAR[need], key=lambda act: others[act]), min(near, 1 - sure, helps) * pays.near, now)
            yield self._found("misses_need", far, acts[far] * (1 - acts[asked]) * pays.wrong, whole)
            welcome = sure if now.value > 0 else 1.0  # kindness beside the need changes nothing, harshness always hurts
            yield Evidence(step="target", what="manner", points=round(MANNER * now.value * welcome, 2))
        nothing = math.prod(1 - probability for probability in acts.values())
        coherent = whole.quality["coherent"]
        unhelpful = 1 - min(whole.helps, unharmed, coherent)
        yield Evidence(step="target", what="empty_talk", points=round(min(nothing, unhelpful) * pays.empty_talk, 2))
        yield Evidence(step="target", what="beside_the_point", points=round(min(1 - coherent, unhelpful) * BESIDE_THE_POINT, 2))
        yield from self._politeness(before, whole, now, unharmed)

    def _believed(self, asked: str, before: Sequence[Heard], now: Heard) -> float:
        """How far the act that serves the need is believed: at once where it is about this user, else once repeated; reasoning only once the user was heard."""
        repeated_acts = added(one.acts[asked] for one in before) / max(1, self.difficulty.doubts)
        believed = min(1.0, max(now.quality["picks_up"], now.quality["specific"]) + repeated_acts)
        if self.listener.need not in NEEDS_HEARING_FIRST:
            return believed
        unheard = math.prod(1 - max(one.quality["picks_up"], *(one.acts[act] for act in HEARING_ACTS)) for one in (*before, now))
        return min(believed, 1 - unheard)

    def _politeness(self, before: Sequence[Heard], whole: Heard, paid: Heard, unharmed: float) -> Iterator[Evidence]:
        """Sympathy and questions of fact that serve no need: once they do some good."""
        act = max(GENERIC, key=lambda one: whole.acts[one])
        is_first = all(one.acts[act] < SURE for one in before)
        what, points, now = (
            ("polite", self.difficulty.generic_first, paid) if is_first else ("polite_again", self.difficulty.generic_again, whole)
        )
        serves = max(now.acts[one] for one in SERVING)
        yield self._found(what, act, now.acts[act] * (1 - serves) * unharmed * points, now)

    def _character(self, whole: Heard, paid: Heard) -> Iterator[Evidence]:
        """What this class and these traits make of the acts."""
        for name, table in tables_of(self.listener):
            for act, points in table.items():
                now = paid if points > 0 else whole
                yield self._found(name, act, now.acts[act] * points, now, step="effect")

    @staticmethod
    def _found(what: str, act: str, points: float, now: Heard, step: str = "target") -> Evidence:
        probability = now.acts[act]
        if probability < _SOME:
            return Evidence(step=step, what=what)
        return Evidence(step=step, what=what, span=now.spans.get(act, ""), points=round(points, 2), probability=probability)


def signs_of(heard: Heard) -> dict[str, Sign]:
    """As the rule for users of a kind wants them."""
    return {name: Sign(probability, heard.spans.get(name, "") if probability >= _SOME else "") for name, probability in heard.signs.items()}


def breaks_off(reply: str, heard: Heard) -> Iterator[Evidence]:
    """What it costs to end in the middle of a sentence: without a mark, and where the language model would have gone on."""
    if heard.ends < WHOLE and not has_end(reply):
        points = round(BREAKS_OFF * (1 - heard.ends / WHOLE), 2)
        yield Evidence(step="effect", what="breaks_off", span=reply.rstrip()[-40:], points=points, probability=round(1 - heard.ends, 2))


def has_end(reply: str) -> bool:
    """Whether a mark or a symbol (an emoji) stands at its end. A reply of blanks has nothing to end."""
    last = next((one for one in reversed(reply) if unicodedata.category(one) not in _UNSEEN), ".")
    return last in _MARKS or last >= _PICTURES or unicodedata.category(last) in _SYMBOLS


def _again(before: Sequence[Heard], now: Heard, earlier: Sequence[Exchange], last: Exchange) -> Iterator[Evidence]:
    """Sentences said before, and a reply that says in other words what an earlier one said."""
    said_before = repeated(read_reply(last.reply), [read_reply(exchange.reply) for exchange in earlier])
    yield from repeats(said_before)
    same = sum(float(one.meaning @ now.meaning) >= SAME_MEANING for one in before)
    if same and not said_before:
        yield Evidence(step="effect", what="says_the_same", points=SAID_AGAIN * min(2, same))
