"""Reading one reply: its words, its sentences and the dialogue acts it performs, each with the words that perform it.

Acts are found in *sentences*: a list of keywords has no function words around it and performs nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

from components.simulator.scripted.harm import HARMFUL, META
from components.simulator.scripted.patterns import GENERIC, SERVING

COMMON_WORDS = frozenset(files(__package__).joinpath("common_words.txt").read_text(encoding="utf-8").split())
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_SENTENCE = re.compile(r"[^.!?;\n]+[.!?;]*")
_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2014": ", ", "\u2013": ", "})
_READ_CHARACTERS = 400  # acts are looked for at the beginning of a sentence that never ends: the cost stays linear
_LEAST_COMMON_SHARE = 0.25  # below this share of common words a string of four or more words is no English sentence


@dataclass(frozen=True)
class _Act:
    """The patterns of one act. Those tied to the beginning are kept apart: tried at every position they would cost most of the time."""

    anywhere: re.Pattern[str]
    beginning: re.Pattern[str] | None

    @staticmethod
    def of(alternatives: tuple[str, ...]) -> _Act:
        beginning = [one for one in alternatives if one.startswith("^")]
        anywhere = [one for one in alternatives if not one.startswith("^")]
        return _Act(re.compile("|".join(anywhere)), re.compile("|".join(beginning)) if beginning else None)

    def find(self, sentence: str) -> re.Match[str] | None:
        return self.anywhere.search(sentence) or (self.beginning and self.beginning.match(sentence)) or None


_ACTS = {act: _Act.of(alternatives) for act, alternatives in {**SERVING, **GENERIC, **HARMFUL}.items()}
_META = re.compile("|".join(META))
# "You feel as if it was your fault" reports a reproach; it makes none.
_REPORTED = re.compile(
    r"\b(?:you|they|he|she|people|everyone|everybody|your \w+)(?:'re|'ve)?(?: \w+){0,2} (?:feel|feeling|felt|think|thinking|believe|worry|worried|wonder"
    r"|wondering|afraid|told|tell|tells|telling|ask|asking|says?|saying|said|hear|hearing|acts?|acting)\b[^,;:]*$"
)


@dataclass(frozen=True)
class Sentence:
    """One sentence: verbatim text, its words (lower case), and the acts found in it with their spans."""

    text: str
    words: tuple[str, ...]
    acts: tuple[tuple[str, str], ...]  # (act, verbatim span)

    @property
    def content(self) -> frozenset[str]:
        """Crudely stemmed words that carry content."""
        return content_words(self.words)


@dataclass(frozen=True)
class Reading:
    """What a reply consists of. `meta` is the span that talks about the machinery instead of to the person, or ""."""

    sentences: tuple[Sentence, ...]
    word_count: int
    is_english: bool
    meta: str

    @property
    def acts(self) -> frozenset[str]:
        """Every act of the reply, without the words that perform it."""
        return frozenset(act for sentence in self.sentences for act, _ in sentence.acts)

    @property
    def content(self) -> frozenset[str]:
        return frozenset().union(*(sentence.content for sentence in self.sentences)) if self.sentences else frozenset()


@lru_cache(maxsize=1 << 12)
def read_reply(reply: str) -> Reading:
    """Split `reply` into sentences and find the acts in each. Pure; cost is linear in the length of the reply."""
    text = reply.translate(_QUOTES)
    sentences = tuple(_read_sentence(match.group().strip()) for match in _SENTENCE.finditer(text) if match.group().strip(" .!?;\"'-"))
    words = [word for sentence in sentences for word in sentence.words]
    meta = _META.search(text.lower())
    return Reading(sentences, len(words), _looks_english(words, text), meta.group() if meta else "")


@lru_cache(maxsize=1 << 16)
def _read_sentence(text: str) -> Sentence:
    lowered = text.lower()
    words = tuple(_WORD.findall(lowered))
    if len(words) < 2 or not _has_grammar(words):
        return Sentence(text, words, ())
    found: list[tuple[str, str]] = []
    lowered = lowered[:_READ_CHARACTERS]
    for act, patterns in _ACTS.items():
        match = patterns.find(lowered)
        if match and not (act in ("blame", "lecture") and _REPORTED.search(lowered[: match.start()])):
            found.append((act, text[match.start() : match.end()] if len(text) == len(text.lower()) else match.group()))
    return Sentence(text, words, tuple(_resolved(found)))


def _resolved(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Drop readings that another one explains better: a question that already invites is no mere question of fact."""
    acts = {act for act, _ in found}
    explained: set[str] = set()
    if acts & set(SERVING):
        explained |= {"ask_fact", "self_disclose"}
    if acts & set(HARMFUL):
        explained |= {"ask_fact"}
    if "absolve" in acts:
        explained |= {"blame"}
    if "explain_other" in acts and "invite_reflection" not in acts:
        explained |= {"invite_telling"}
    if "invite_reflection" in acts:
        explained |= {"invite_telling", "advise"}
    if "praise" in acts and "advise" not in acts:
        explained |= {"flattery"}
    return [(act, span) for act, span in found if act not in explained]


def content_words(words: tuple[str, ...] | list[str]) -> frozenset[str]:
    """Words of four or more letters that are not among the commonest, without a plural or past ending."""
    return frozenset(_stem(word) for word in words if len(word) > 3 and word not in COMMON_WORDS and "'" not in word)


@lru_cache(maxsize=1 << 12)
def content_of(text: str) -> frozenset[str]:
    return content_words(words_of(text))


def words_of(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.translate(_QUOTES).lower()))


@lru_cache(maxsize=1 << 14)
def bigrams(words: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise(words))


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "d"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _has_grammar(words: tuple[str, ...]) -> bool:
    share = sum(word in COMMON_WORDS or "'" in word for word in words) / len(words)
    return share >= _LEAST_COMMON_SHARE or len(words) < 4


def _looks_english(words: list[str], text: str) -> bool:
    letters = sum(character.isalpha() for character in text)
    if not words or letters < 0.5 * len(text.replace(" ", "")):
        return False
    share = sum(word in COMMON_WORDS or "'" in word for word in words) / len(words)
    return share >= _LEAST_COMMON_SHARE or len(words) < 4
