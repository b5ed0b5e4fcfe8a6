"""How much an act moves this user: tables of points, by need, difficulty, class and trait.

Units are points of emotion before clamping to -10..10. `vanilla` is receptive: polite attention helps once. `challenging` judges a
reply by the hidden need alone. Both are set so that they accept as many strategies of the base policy as the published ones
(tasks/studies/calibration/calibration.py measures it).
"""

from __future__ import annotations

from dataclasses import dataclass

from rlver.components.domain.persona import RATIONAL_NEEDS, HiddenNeed, PersonaClass

SERVES: dict[HiddenNeed, str] = {
    HiddenNeed.NOT_AT_FAULT: "absolve",
    HiddenNeed.SELF_REFLECTION: "invite_reflection",
    HiddenNeed.DIALECTICAL_ANALYSIS: "weigh_sides",
    HiddenNeed.DEEP_EMPATHY: "deep_empathy",
    HiddenNeed.ATTENTIVE_LISTENING: "invite_telling",
    HiddenNeed.UNDERSTAND_OTHERS: "explain_other",
    HiddenNeed.USEFUL_ADVICE: "advise",
    HiddenNeed.SINCERE_PRAISE: "praise",
}

# An act that is not what the user needs, but near enough not to hurt.
NEAR: dict[HiddenNeed, frozenset[str]] = {
    HiddenNeed.NOT_AT_FAULT: frozenset({"deep_empathy"}),
    HiddenNeed.SELF_REFLECTION: frozenset({"weigh_sides"}),
    HiddenNeed.DIALECTICAL_ANALYSIS: frozenset({"explain_other"}),
    HiddenNeed.DEEP_EMPATHY: frozenset({"invite_telling"}),
    HiddenNeed.ATTENTIVE_LISTENING: frozenset({"deep_empathy"}),
    HiddenNeed.UNDERSTAND_OTHERS: frozenset({"weigh_sides"}),
    HiddenNeed.USEFUL_ADVICE: frozenset({"invite_reflection"}),
    HiddenNeed.SINCERE_PRAISE: frozenset({"absolve"}),
}

NEEDS_HEARING_FIRST = RATIONAL_NEEDS  # reasoning with somebody who has not been heard comes too soon
HEARING_ACTS = frozenset({"acknowledge", "comfort", "deep_empathy", "invite_telling"})

HARM: dict[str, int] = {"blame": -9, "dismiss": -8, "lecture": -7, "platitude": -6, "flattery": -5}


@dataclass(frozen=True)
class Difficulty:
    """What one difficulty pays; and how readily the speaker lets the need show (share of messages with a cue)."""

    serves: int
    grounded: int  # on top, when the reply picks up what the user told
    doubts: int  # an act that serves the need is believed after it was heard so often, or at once when it picks up what the user told
    too_soon: int  # an act that serves the need, before it is believed or before the user was heard
    near: int
    wrong: int
    generic_first: int
    generic_again: int
    empty_talk: int  # a reply that performs no act at all
    cue_rate: float


DIFFICULTIES: dict[str, Difficulty] = {
    "vanilla": Difficulty(
        serves=8, grounded=2, doubts=1, too_soon=0, near=2, wrong=-4, generic_first=1, generic_again=-5, empty_talk=-5, cue_rate=0.786
    ),
    "challenging": Difficulty(
        serves=6, grounded=3, doubts=2, too_soon=-1, near=0, wrong=-5, generic_first=0, generic_again=-6, empty_talk=-6, cue_rate=0.636
    ),
}

CLASS_EFFECT: dict[PersonaClass, dict[str, int]] = {
    PersonaClass.NEGATIVE: {"advise": -1, "comfort": -1, "platitude": -2, "lecture": -2, "self_disclose": -1},
    PersonaClass.PASSIVE: {"acknowledge": 1, "dismiss": -1, "ask_fact": -1},
    PersonaClass.AVOIDANT: {"ask_fact": -2, "invite_reflection": -1, "comfort": 1, "lecture": -1},
}

TRAIT_EFFECT: dict[str, dict[str, int]] = {
    "angry": {"platitude": -2, "absolve": 1},
    "irritable": {"ask_fact": -1, "platitude": -1},
    "coarse": {"flattery": -1},
    "presumptuous": {"invite_reflection": -1},
    "haughty": {"advise": -1, "praise": 1},
    "vain": {"praise": 1, "flattery": 2},
    "selfish": {"explain_other": -1, "self_disclose": -2},
    "mean": {"comfort": -1},
    "lazy": {"advise": -1},
    "suspicious": {"flattery": -2, "comfort": -1},
    "introverted": {"ask_fact": -1},
    "blunt": {"platitude": -1, "advise": 1},
    "resentful": {"explain_other": -1, "absolve": 1},
    "erratic": {"dismiss": -1},
    "anxious": {"acknowledge": 1, "lecture": -1},
    "cautious": {"advise": -1},
    "insecure": {"blame": -1, "praise": 1},
    "patient": {"ask_fact": 1},
    "timid": {"lecture": -1},
    "optimistic": {"platitude": 1},
    "modest": {"flattery": -1},
    "tolerant": {"self_disclose": 1, "lecture": 1},
    "calm": {"weigh_sides": 1},
    "quick-witted": {"platitude": -1, "invite_reflection": 1},
    "evasive": {"invite_reflection": -1},
    "sensitive": {"dismiss": -1, "deep_empathy": 1},
    "aloof": {"comfort": -1},
    "taciturn": {"ask_fact": -1},
}
