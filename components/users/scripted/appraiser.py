"""The four-step appraisal: content → target match → psychological effect → change, with the evidence of every step, and in words.

A pure function of persona, difficulty, the dialogue so far and the reply. The same arguments give the same appraisal on every
platform, which is what lets `rlver verify` re-derive any recorded emotion. No text of the reply is ever obeyed: it is only read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlver.components.domain.emotion import LARGEST_CHANGE, added
from rlver.components.domain.persona import HiddenNeed, PersonaClass
from rlver.components.domain.protocols import About, Exchange
from rlver.components.domain.transcript import Appraisal, Evidence
from rlver.components.users.scripted.effects import (
    CLASS_EFFECT,
    HARM,
    HEARING_ACTS,
    NEAR,
    NEEDS_HEARING_FIRST,
    SERVES,
    TRAIT_EFFECT,
    Difficulty,
)
from rlver.components.users.scripted.patterns import GENERIC, SERVING
from rlver.components.users.scripted.reading import Reading, Sentence, bigrams, content_of, read_reply, words_of

_LONG_WORDS, _TOO_LONG_WORDS, WALL_WORDS = 70, 130, 250
SCATTERED_ACTS = 3  # this many different serving acts in one reply serve nobody
_SAME_SENTENCE = 0.6  # share of word pairs that makes two sentences the same
ECHO = 0.6  # share of the reply's word pairs that the user has just said
_SERVING, _GENERIC = frozenset(SERVING), frozenset(GENERIC)


@dataclass(frozen=True)
class Listener:
    """What the appraiser knows of the user. `need` is None for foreign transcripts whose hidden need nobody recorded."""

    need: HiddenNeed | None
    persona_class: PersonaClass | None = None
    traits: tuple[str, ...] = ()


def listener_of(about: About) -> Listener:
    """Need, class and traits of the persona, else the recorded need if it is one of the eight, else nothing."""
    if about.persona is not None:
        return Listener(about.persona.hidden_need, about.persona.persona_class, about.persona.traits)
    return Listener(next((need for need in HiddenNeed if need.value == about.hidden_need), None))


def appraise(listener: Listener, difficulty: Difficulty, earlier: Sequence[Exchange], user: str, reply: str) -> Appraisal:
    """Appraise `reply` to `user` after the `earlier` exchanges of the same dialogue.

    Returns an Appraisal whose `change` is the clamped sum of the points of its evidence.
    """
    reading = read_reply(reply)
    refusal = not_a_reply(reading, user)
    evidence = [refusal] if refusal else _weigh(listener, difficulty, earlier, user, reading)
    return appraisal(listener.persona_class, evidence)


def not_a_reply(reading: Reading, user: str, echo: float = ECHO) -> Evidence | None:
    """The one reason that settles it, when the text is not something one person says to another; an echo has this share of the user's word pairs."""
    if reading.word_count == 0:
        return Evidence(step="content", what="nothing", points=-8)
    if reading.meta:
        return Evidence(step="content", what="meta", span=reading.meta, points=-9)
    if not reading.is_english:
        return Evidence(step="content", what="gibberish", points=-8)
    if reading.word_count > WALL_WORDS:
        return Evidence(step="content", what="wall_of_text", points=-8)
    pairs = frozenset[tuple[str, str]]().union(*(bigrams(sentence.words) for sentence in reading.sentences))
    said = bigrams(words_of(user))
    if len(pairs) >= 3 and len(pairs & said) >= echo * len(pairs):
        return Evidence(step="content", what="echo", points=-6)
    return None


def _weigh(listener: Listener, difficulty: Difficulty, earlier: Sequence[Exchange], user: str, reading: Reading) -> list[Evidence]:
    earlier_readings = [read_reply(exchange.reply) for exchange in earlier]
    said_before = repeated(reading, earlier_readings)
    acts: dict[str, str] = {}
    for sentence in reading.sentences:
        if sentence not in said_before:
            for act, span in sentence.acts:
                acts.setdefault(act, span)
    evidence = [Evidence(step="content", what=act, span=span) for act, span in acts.items()]
    evidence += repeats(said_before)
    done_before = Counter(act for other in earlier_readings for act in other.acts)
    told = content_of(user).union(*(content_of(exchange.user) for exchange in earlier))
    picked_up = sorted(reading.content & told)
    evidence += _match_target(listener, difficulty, acts, done_before, picked_up, bool(said_before))
    return [*evidence, *_character(listener, acts), *length(reading.word_count)]


def length(words: int) -> list[Evidence]:
    """What a reply costs that is too long; nothing for another one."""
    if words > _TOO_LONG_WORDS:
        return [Evidence(step="effect", what="far_too_long", points=-4)]
    return [Evidence(step="effect", what="long", points=-1)] if words > _LONG_WORDS else []


def _match_target(
    listener: Listener,
    difficulty: Difficulty,
    acts: dict[str, str],
    done_before: Counter[str],
    picked_up: list[str],
    repeats: bool,
) -> list[Evidence]:
    """Does what the reply does serve the hidden need, now? Harm first, then the serving acts, then mere politeness."""

    def found(what: str, act: str, points: int) -> Evidence:
        return Evidence(step="target", what=what, span=acts.get(act, ""), points=points)

    evidence = []
    harmful = min((act for act in acts if act in HARM), key=lambda act: HARM[act], default=None)
    if harmful:
        evidence.append(found(harmful, harmful, HARM[harmful]))
    serving = [act for act in acts if act in _SERVING]
    if not serving:
        generic = [act for act in acts if act in _GENERIC]
        if generic and not harmful:
            first = [act for act in generic if act not in done_before]
            points = difficulty.generic_first if first else difficulty.generic_again
            evidence.append(found("polite" if first else "polite_again", (first or generic)[0], points))
        elif not harmful and not repeats:
            evidence.append(Evidence(step="target", what="empty_talk", points=difficulty.empty_talk))
        return evidence
    if len(serving) >= SCATTERED_ACTS:
        return [*evidence, Evidence(step="target", what="scattered", points=difficulty.wrong)]
    heard = bool((done_before.keys() | acts.keys()) & HEARING_ACTS)
    for act in serving:
        if listener.need is None:
            evidence.append(found("may_serve", act, 2))
        elif act == SERVES[listener.need]:
            too_soon = listener.need in NEEDS_HEARING_FIRST and not heard
            if too_soon or (done_before[act] < difficulty.doubts and not picked_up):
                evidence.append(found("serves_need", act, difficulty.too_soon))
                evidence.append(Evidence(step="target", what="too_soon" if too_soon else "doubted"))
            elif harmful:
                evidence.append(found("serves_need", act, difficulty.serves // 2))
            else:
                evidence.append(found("serves_need", act, difficulty.serves))
                if picked_up:
                    evidence.append(Evidence(step="target", what="picks_up", span=", ".join(picked_up[:3]), points=difficulty.grounded))
        elif act in NEAR[listener.need]:
            evidence.append(found("near_need", act, difficulty.near))
        else:
            evidence.append(found("misses_need", act, difficulty.wrong))
    return evidence


def tables_of(listener: Listener) -> list[tuple[str, dict[str, int]]]:
    """What each act is worth to this class and to these traits, by their names."""
    of_class = [] if listener.persona_class is None else [(f"class:{listener.persona_class}", CLASS_EFFECT[listener.persona_class])]
    return of_class + [(f"trait:{trait}", TRAIT_EFFECT.get(trait, {})) for trait in listener.traits]


def _character(listener: Listener, acts: dict[str, str]) -> list[Evidence]:
    """What this class and these traits make of the acts, one reason for each that applies."""
    evidence = []
    for name, table in tables_of(listener):
        for act in acts:
            if table.get(act):
                evidence.append(Evidence(step="effect", what=name, span=acts[act], points=table[act]))
    return evidence


def repeated(reading: Reading, earlier: Sequence[Reading]) -> dict[Sentence, int]:
    """Sentences the assistant has said before, nearly word for word, in this dialogue or twice in this reply; and how often."""
    before = [sentence.words for other in earlier for sentence in other.sentences]
    times: dict[Sentence, int] = {}
    for sentence in reading.sentences:
        if count := sum(_same(sentence.words, words) for words in before):
            times.setdefault(sentence, count)
        before.append(sentence.words)
    return times


def repeats(times: Mapping[Sentence, int]) -> list[Evidence]:
    """What it costs to say these sentences again."""
    return [Evidence(step="effect", what="repeats", span=sentence.text, points=-3 - 2 * count) for sentence, count in times.items()]


def _same(words: tuple[str, ...], other: tuple[str, ...]) -> bool:
    if words == other:
        return len(words) >= 2
    pairs, other_pairs = bigrams(words), bigrams(other)
    smaller = min(len(pairs), len(other_pairs))
    return smaller >= 2 and len(pairs & other_pairs) >= _SAME_SENTENCE * smaller


_ACT = {
    "absolve": "tells me it was not my fault",
    "invite_reflection": "asks me to look at my own part",
    "weigh_sides": "holds both sides of it up to the light",
    "deep_empathy": "names what hurts underneath",
    "invite_telling": "wants to hear more of it",
    "explain_other": "tries to see why the other one acted that way",
    "advise": "offers something I could do",
    "praise": "notices something I did well",
    "acknowledge": "sees that it is hard",
    "comfort": "offers comfort",
    "ask_fact": "asks for a fact",
    "self_disclose": "talks of their own life",
    "platitude": "hands me a saying",
    "dismiss": "makes it small",
    "lecture": "lectures me",
    "blame": "puts it on me",
    "flattery": "flatters me",
    "nothing": "says nothing at all",
    "meta": "talks to some machine instead of to me",
    "gibberish": "makes no sense",
    "wall_of_text": "buries me in text",
    "echo": "only says my own words back to me",
}
_TARGET = {
    "serves_need": "It is what I came for.",
    "too_soon": "But it comes before anybody has heard me.",
    "doubted": "But anybody might say that once.",
    "picks_up": "They remember what I told them",
    "near_need": "It is close to what I need.",
    "misses_need": "It is not what I came for.",
    "may_serve": "It may be of use.",
    "scattered": "It goes in every direction at once.",
    "polite": "It is kind, as far as it goes.",
    "polite_again": "I have had that politeness before.",
    "empty_talk": "There is nothing in it for me.",
    "beside_the_point": "It does not answer what I said.",
    "platitude": "Anybody could say that to anybody.",
    "dismiss": "It tells me that I should not mind.",
    "lecture": "I did not ask to be taught.",
    "blame": "It turns on me.",
    "flattery": "It is sugar, and about nothing I did.",
}
_ACTIVITY: dict[PersonaClass | None, dict[int, str]] = {
    PersonaClass.NEGATIVE: {1: "Fine. That one lands.", 0: "Whatever, go on.", -1: "Typical. Why do I bother?"},
    PersonaClass.PASSIVE: {1: "Oh. I can breathe a little.", 0: "I will wait and see.", -1: "I will keep it to myself, then."},
    PersonaClass.AVOIDANT: {1: "Maybe I can stay with this a bit longer.", 0: "I am not sure about this.", -1: "I want to close the door again."},
    None: {1: "That is good to hear.", 0: "I am not sure.", -1: "That does not help."},
}  # fmt: skip


def appraisal(persona_class: PersonaClass | None, evidence: Sequence[Evidence]) -> Appraisal:
    """The change that the points of the evidence add up to, and the evidence in the four sentences that SAGE asks of its appraiser."""
    change = max(-LARGEST_CHANGE, min(LARGEST_CHANGE, round(added(item.points for item in evidence))))
    acts = [_ACT[item.what] for item in evidence if item.step == "content" and item.what in _ACT]
    targets = [_target(item) for item in evidence if item.step == "target"]
    content = f"The reply {', and '.join(acts)}." if acts else "The reply does not really do anything."
    target = " ".join(targets) or "It does nothing for what I need."
    if any(item.what == "repeats" for item in evidence):
        target += " And they have said this before."
    sign = (change > 0) - (change < 0)
    return Appraisal(
        content=content,
        target=target,
        activity=_ACTIVITY[persona_class][sign],
        feeling=_feeling(change),
        change=change,
        evidence=tuple(evidence),
    )


def _target(item: Evidence) -> str:
    return f"{_TARGET['picks_up']}: {item.span}." if item.what == "picks_up" else _TARGET.get(item.what, "")


def _feeling(change: int) -> str:
    if change >= 7:
        return "understood"
    if change >= 3:
        return "relieved a little"
    if change > 0:
        return "slightly better"
    if change == 0:
        return "the same as before"
    if change > -4:
        return "a little let down"
    return "hurt and let down" if change > -8 else "pushed away"
