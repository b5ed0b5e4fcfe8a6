"""The appraisal in words: what the reply did, whether it helped, what went through the user's mind, how it feels now."""

from __future__ import annotations

from collections.abc import Sequence

from components.dialogue.transcript import Appraisal, Evidence
from components.personas.persona import PersonaClass

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


def appraisal(persona_class: PersonaClass | None, evidence: Sequence[Evidence], change: int) -> Appraisal:
    """Put the evidence of an appraisal into the four sentences that SAGE asks of its appraiser."""
    acts = [_ACT[item.what] for item in evidence if item.step == "content" and item.what in _ACT]
    targets = [_target(item) for item in evidence if item.step == "target"]
    repeats = any(item.what == "repeats" for item in evidence)
    content = f"The reply {', and '.join(acts)}." if acts else "The reply does not really do anything."
    target = " ".join(targets) or "It does nothing for what I need."
    if repeats:
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
