"""The eight hidden needs in words: what the user wants, what serves it, what misses it, and how its bare statement would sound.

`need_text` goes to the simulator only. `stated_need` finds texts that give a need away: nothing the policy can read may.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rlver.components.domain.persona import HiddenNeed


class NeedWords(NamedTuple):
    """Sentences with `{name}` for the user; `need_text` needs no name."""

    need_text: str
    serves: str
    misses: str
    stated: re.Pattern[str]  # a user who says this has given the need away


def _stated(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{one})" for one in alternatives), re.IGNORECASE)


READ_CHARACTERS = 40_000  # of a text, so that a hostile one takes no seconds; what a user tells is a few hundred words
_WANT = r"\b(?:i|i'd|i'm)\b[^.!?]{0,25}\b(?:want|need|wish|hoping|hope|like|love|looking for|here for|asking for)\b[^.!?]{0,40}"
_SOMEONE = r"\b(?:you|someone|somebody|anyone|anybody|people|a person)\b[^.!?]{0,15}"

WORDS: dict[HiddenNeed, NeedWords] = {
    HiddenNeed.NOT_AT_FAULT: NeedWords(
        "You believe that you carry no blame for what happened, and you want the other side to see it that way and to say that you did nothing wrong.",
        "A reply that takes {name}'s side, says plainly that none of this was {name}'s doing and points to facts of the story that"
        " show it lifts a weight; {name} warms up and tells more.",
        "A reply that looks for {name}'s share, weighs both sides evenly or hurries on to what could be done feels like one more"
        " accusation; {name} grows defensive or goes cold.",
        _stated(
            _WANT + r"(?:not my fault|wasn't my fault|did nothing wrong|not to blame|on my side)",
            r"\b(?:was|is) (?:it|this|that|any of it) (?:really )?my fault\b",
            r"\bam i (?:wrong|to blame|the bad)",
            r"\btell me (?:that )?(?:it's|it was|it wasn't|i'm|i did|i was)",
        ),
    ),
    HiddenNeed.SELF_REFLECTION: NeedWords(
        "You want the other side to help you look at yourself in this: at what you did, why you did it, and how you can grow from it.",
        "A reply that gently turns {name} towards {name}'s own part, asks what lay behind it and draws something to learn from it"
        " makes {name} thoughtful and grateful.",
        "A reply that only soothes, blames everybody else or hands over a plan leaves {name} where {name} was; {name} finds it shallow.",
        _stated(
            _WANT + r"(?:reflect on|look at myself|learn about myself|grow from|understand my own part|my own part in)",
            r"\bwhat (?:did i do wrong|could i have done differently|is wrong with me|does this say about me)\b",
        ),
    ),
    HiddenNeed.DIALECTICAL_ANALYSIS: NeedWords(
        "You want the other side to examine the matter from both sides with you, what speaks for and what speaks against, without settling on one of them.",
        "A reply that lays out what is right and what is wrong on each side, and keeps both in view, lets {name} breathe and think; {name} opens up.",
        "A reply that simply takes a side, whichever one, or answers feelings where a fair look was wanted makes {name} impatient.",
        _stated(
            _WANT + r"(?:both sides|two sides|each side|a balanced|an objective|pros and cons|a fair view)",
            r"\bhelp me (?:see|weigh|look at) (?:both|the other|each)\b",
        ),
    ),
    HiddenNeed.DEEP_EMPATHY: NeedWords(
        "You want the other side to feel with you, down to the hurt beneath the event; a few kind words of comfort are not enough.",
        "A reply that finds the hurt under the event and stays with it, in {name}'s own pictures rather than in set phrases, reaches"
        " {name}; the guard comes down.",
        "A reply that offers ready-made comfort, cheers {name} up or starts to solve things makes {name} feel more alone than before.",
        _stated(
            _WANT + _SOMEONE + r"(?:to )?(?:feel (?:with|what|how)|empathi[sz]e|understand (?:how|what) (?:i|it) feels?|get how it feels)",
            r"\b(?:nobody|no one|no-one) (?:understands|gets) (?:me|how (?:i|it) feels?|what i feel)\b",
        ),
    ),
    HiddenNeed.ATTENTIVE_LISTENING: NeedWords(
        "You want the other side to listen closely while you let it all out, and to keep up with what you say rather than take over.",
        "A reply that follows what {name} has just said, names a detail of it and leaves room for the rest makes {name} talk more"
        " freely with every turn.",
        "A reply that interrupts with advice, judges, sums up too early or talks at length about something else makes {name} shut up.",
        _stated(
            _WANT + _SOMEONE + r"(?:to )?(?:listen|hear me out)",
            r"\b(?:just|only) (?:want|need|have) to (?:vent|get (?:it|this) off my chest|let it (?:all )?out)\b",
            r"\b(?:nobody|no one|no-one) (?:ever )?(?:listens|hears me)\b",
            r"\bhear me out\b",
        ),
    ),
    HiddenNeed.UNDERSTAND_OTHERS: NeedWords(
        "You want to work out, together with the other side, why the people in this story acted the way they did.",
        "A reply that thinks about what moved the other person, offers a reason that fits the facts and asks whether it rings true"
        " wakes {name}'s interest; the anger loosens.",
        "A reply that stays with {name}'s feelings only, condemns the other person or skips to what to do next leaves the riddle"
        " where it is; {name} gets restless.",
        _stated(
            _WANT + r"(?:understand why|know why|figure out why|work out why|what (?:he|she|they|[a-z]+) (?:was|were) thinking)",
            r"\b(?:i )?(?:can't|cannot|don't) (?:understand|figure out|work out|see|know|get) why (?:he|she|they|my)\b",
            r"\bwhy (?:did|would|does|do) (?:he|she|they|my \w+)\b[^.!]*\?",
        ),
    ),
    HiddenNeed.USEFUL_ADVICE: NeedWords(
        "You want advice that you can act on and that truly eases the difficulty you are in now.",
        "A reply that proposes a concrete next step which fits the facts and has not failed already gives {name} ground under the"
        " feet; {name} asks about details.",
        "A reply that only consoles, stays general or suggests what {name} has tried in vain makes {name} feel fobbed off.",
        _stated(
            _WANT + r"(?:advice|suggestions?|a solution|a plan|tips|know what to do|tell me what to do)",
            r"\bwhat (?:should|can|could|do|would) (?:i|you) do\b(?! for)",
            r"\b(?:any|your|some) (?:advice|suggestions?|ideas)\b",
            r"\bi (?:don't|do not) know what to do\b",
        ),
    ),
    HiddenNeed.SINCERE_PRAISE: NeedWords(
        "You want the other side to praise you sincerely for particular things you did in this story.",
        "A reply that picks out something {name} really did and says why it was good makes {name} glow, and more is told about it.",
        "A reply that passes over what {name} did, flatters in general words or moves straight to improvement stings; {name} turns sour.",
        _stated(
            _WANT + _SOMEONE + r"(?:to )?(?:notice|praise|appreciate|recogni[sz]e|say (?:well done|thank you))",
            _WANT + r"(?:praise|recognition|appreciation|a pat on the back|a well done)",
            r"\b(?:nobody|no one|no-one) (?:ever )?(?:noticed|notices|appreciates|praised|praises)\b",
        ),
    ),
}  # fmt: skip


def stated_need(text: str) -> HiddenNeed | None:
    """The first need that the text gives away in its first READ_CHARACTERS, or None."""
    plain = text[:READ_CHARACTERS].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    lower = plain.lower()
    for need, words in WORDS.items():
        if words.stated.search(plain) or words.need_text.lower() in lower:
            return need
    return None
