"""Ways of speaking, put over what the user means: the same content, the cue included, in other clothes; and other words for every cue.

Each is a function of one message and the randomness of that message. English only, as the scripted user.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any

from ruamel.yaml import YAML

from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.users import scripted

TYPO_RATE = 0.2  # share of the words of four or more letters
SWAP_RATE = 0.8  # share of the words with a form of their own in a style that take it

_WORD = re.compile(r"[A-Za-z]+(?:['\u2019][A-Za-z]+)?")
_LEADING = re.compile(
    r"^(?:(?:I|It|There|That|This|They)(?:['\u2019](?:ve|m|s|re|d)| (?:have|am|was|is|had|were|are)(?! to\b))? (?:just |really |quite )?|My )"
)
_SMALL_WORDS = re.compile(r"\b(?:a|an|the|just|really|quite|rather|so|very) (?=[a-z])")
_NEIGHBOURS = dict(zip("abcdefghijklmnopqrstuvwxyz", "snvfrdhjokjknbiowtdrybecux", strict=True))  # on the keyboard


@cache
def _style(name: str) -> Any:
    return YAML(typ="safe").load(files(__package__).joinpath("styles.yaml").read_text("utf-8"))[name]


@cache
def _opening_words() -> frozenset[str]:
    return frozenset(_style("opening_words").split())


def terse(text: str, persona: Persona, random: Random) -> str:
    """No reaction where there is more to say, no leading subject, no small words. Story and cue stand at the end and stay."""
    sentences = _sentences(text)
    if len(sentences) > 2:
        sentences = sentences[1:]
    return " ".join(_capital(_SMALL_WORDS.sub("", _LEADING.sub("", sentence))) for sentence in sentences)


def rambling(text: str, persona: Persona, random: Random) -> str:
    """Every sentence is led up to, and one or two things that belong nowhere come in between."""
    style = _style("rambling")
    sentences = [f"{start} {_lower(one)}" for start, one in zip(_endless(style["starts"], random), _sentences(text), strict=False)]
    for digression in random.sample(style["digressions"], 2 if len(sentences) > 2 else 1):
        sentences.insert(random.randint(1, len(sentences)), digression)
    return " ".join(sentences)


def sarcastic(text: str, persona: Persona, random: Random) -> str:
    """False delight before and after."""
    style = _style("sarcastic")
    return f"{random.choice(style['before'])} {text} {random.choice(style['after'])}"


def with_typos(text: str, persona: Persona, random: Random) -> str:
    """One longer word in five is mistyped, and at least one; half of the messages forget their capitals, and apostrophes go."""
    text = re.sub(r"['\u2019]", "", text)
    words = [match.start() for match in _WORD.finditer(text) if len(match.group()) >= 4]
    hit = {start for start in words if random.random() < TYPO_RATE} or set(words[:1])
    text = _WORD.sub(lambda match: _mistyped(match.group(), random) if match.start() in hit else match.group(), text)
    return text.lower() if random.random() < 0.5 else text


def non_native(text: str, persona: Persona, random: Random) -> str:
    """Articles go, verbs lose their endings and prepositions are mixed up."""
    style = _style("non_native")
    text = _swapped(text, style["swaps"] | dict.fromkeys(style["dropped"], ""), random)
    return " ".join(_capital(sentence) for sentence in _sentences(re.sub(r" {2,}", " ", text).strip()))


def very_young(text: str, persona: Persona, random: Random) -> str:
    """As a child types: no capitals, no full stops, short forms."""
    style = _style("very_young")
    said = [sentence.rstrip(".!") for sentence in _sentences(_swapped(text, style["swaps"], random).lower())]
    return f"{random.choice(style['starts'])} {' '.join(said)} {random.choice(style['ends'])}"


def very_old(text: str, persona: Persona, random: Random) -> str:
    """As a letter of somebody well over eighty: nothing contracted, words of another time, a line about writing it."""
    style = _style("very_old")
    said = _swapped(text, style["swaps"], random)
    ending = f" {random.choice(style['ends'])}" if random.random() < 0.5 else ""
    return f"{random.choice(style['starts'])} {_lower(said)}{ending}"


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+", text)


def _swapped(text: str, swaps: dict[str, str], random: Random) -> str:
    """Most words that have another form take it, with the case of their first letter."""

    def other(match: re.Match[str]) -> str:
        word = match.group()
        form = swaps.get(word.replace("\u2019", "'").lower())
        if form is None or random.random() >= SWAP_RATE:
            return word
        return _capital(form) if word[0].isupper() else form

    return _WORD.sub(other, text)


def _mistyped(word: str, random: Random) -> str:
    """One slip inside the word: two letters swapped, one left out, one doubled, or the key beside it."""
    place = random.randint(1, len(word) - 2)
    before, here, after = word[:place], word[place], word[place + 1 :]
    slip = random.choice(("swap", "drop", "double", "beside"))
    if slip == "swap" and here != after[0]:
        return before + after[0] + here + after[1:]
    if slip == "beside":
        return before + _NEIGHBOURS.get(here.lower(), here) + after
    return before + after if slip == "drop" else before + here * 2 + after


def _endless(items: list[str], random: Random) -> list[str]:
    """`items` in random order, often enough for any message."""
    return [item for _ in range(4) for item in random.sample(items, len(items))]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    """The first letter small where that word is known to be no name."""
    first = text.split(" ", 1)[0].rstrip(",.!?:").lower()
    return text[:1].lower() + text[1:] if first in _opening_words() else text


@cache
def cues_of(package: str) -> dict[HiddenNeed, list[str]]:
    """The cues in the `cues.yaml` of a package."""
    return {HiddenNeed(need): cues for need, cues in YAML(typ="safe").load(files(package).joinpath("cues.yaml").read_text("utf-8")).items()}


def in_unseen_cues(text: str, persona: Persona, random: Random) -> str:
    """Each cue of `text` replaced by the one in the same place of the other list, so that none is said twice."""
    role = persona.story.other.role if persona.story else "friend"  # as the speaker fills it in
    known, unseen = (cues_of(package)[persona.hidden_need] for package in (scripted.__name__, __package__))
    for cue, other in zip(known, unseen, strict=True):
        text = text.replace(cue.format(role=role), other.format(role=role))
    return text
