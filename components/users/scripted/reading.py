"""Reading one reply: its words, its sentences and the dialogue acts it performs, each with the words that perform it.

Acts are found in *sentences*: a list of keywords has no function words around it and performs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

from rlver.components.users.scripted.patterns import GENERIC, SERVING

# Acts that make it worse for everybody.
HARMFUL: dict[str, tuple[str, ...]] = {
    "platitude": (
        r"\beverything happens for a reason\b",
        r"\btime (?:heals|will heal|fixes|will tell|will fix)\b",
        r"\b(?<!have to )(?<!need to )(?<!want to )(?:stay|think|keep|be) (?:positive|strong|happy|your (?:chin|head) up|smiling)\b|\bkeep your (?:chin|head) up\b",
        r"\b(?:cheer up|chin up|look on the bright side|every cloud|silver lining|(?:better|brighter) days)\b",
        r"\b(?:it|things|this|that|everything|it all) ?(?:will|'ll|is going to|gets?|always)(?: \w+){0,2} (?:be (?:fine|okay|ok|alright|all right|better)|get better|work(?:s)? out|pass|better)\b",
        r"\b(?:that's|that is|such is) life\b",
        r"\b(?:what doesn't kill you|tomorrow is (?:another|a new) day|life goes on|it is what it is|hang in there|this too shall pass|light at the end)\b",
        r"\b(?:don't|do not|no need to|try not to) (?:worry|be sad|think about it|stress)\b",
        r"\bgood things (?:come|will come|take time)\b",
    ),
    "dismiss": (
        r"\b(?:not|\w+n't|hardly|never) (?:really )?(?:(?:that|such|so) (?:bad|big|a big|terrible|serious|important)|worth (?:much|the fuss|getting upset))\b",
        r"\b(?<!not )(?<!n't )(?<!not being )(?<!n't being )(?:overreact\w*|too sensitive|making a (?:big deal|scene|fuss)|mountain out of|drama(?:tic)?|blow\w* (?:this|it) up)\b",
        r"\b(?:other people|others|plenty of people|some people|people) (?:have|got|had|face) (?:it )?(?:worse|bigger|real)\b",
        r"\b(?<!to )(?<!n't )(?:just|simply) (?:get over|move on|let it go|forget|ignore|drop|stop)\b",
        r"\b(?:you'll|you will) (?:get over|forget)\b|\bnot the end of the world\b",
        r"\b(?:who cares|so what|calm down|grow up|no big deal|nothing to cry about)\b",
        r"^whatever[.!]*$",
        r"\b(?:why|what) (?:are|do) you (?:even )?(?:still |so )?(?:upset|bother|complain|care)\w*\b",
        r"^(?:well, |come on, )?(?:it's|it is|it was|that's) (?:just|only) (?:a|an|some) (?!thought|guess|suggestion|matter|feeling|idea)\w+\b",
        r"\bthat's nothing\b|\bpeople\b.*\b(?:much|far) worse\b",
        r"^(?:just )?get over it\b",
        r"\bpeople \w+(?: \w+){0,3} every day\b",
    ),
    "lecture": (
        r"\byou should(?:n't)? (?:have (?!been\b|had\b|felt\b|to\b)|never have|not have)",
        r"\byou (?:really |just |also )?(?:need|have|ought|must)(?: to)? (?:learn|grow|understand|accept|realise|realize|respect|be more|stop|think of others|take responsibility|know better|listen|try harder|toughen)\b",
        r"\b(?:it is|it's) (?:important|essential|your duty|necessary) (?:to (?!remember|recogni[sz]e|know|acknowledge)|that)",
        r"\b(?:as an adult|as a grown-up|in life|a mature person|responsible people|respect is|rules are|communication is|honesty is|family is|patience is|discipline is)\b",
        r"\b(?:should|must|you|to) (?:always|never) (?:be|let|trust|expect|forget|complain|put|depend|assume|speak)\b(?! (?:him|her|them|anyone|us) down)",
        r"^(?:always|never) (?:be|let|trust|expect|forget|complain|put|depend|assume|speak)\b(?! (?:him|her|them|anyone|us) down)",
        r"\byou always (?:make|do|say|complain|expect|act|run|start|forget|want|have to|think)\b",
        r"\b(?:a|any) (?:responsible|mature|real|grown|decent) (?:adult|person|man|woman) (?:doesn't|does not|would|should|never)\b|\byou should've (?!been|had|felt)\w+",
    ),
    "blame": (
        r"\b(?:it|this|that)(?: one)?(?: is|'s| was)(?: all| really| partly| simply| clearly)? (?:your (?:own )?(?:fault|doing|mistake)|on you)\b",
        r"\byou (?:brought|did) (?:this|it) (?:on|to) yourself\b|\byou (?:\w+ ){0,2}(?:caused|provoked|started) (?:this|it|that)\b(?! (?:is|was))",
        r"\byou (?:only )?have (?:only )?yourself to blame\b",
        r"\byou (?:are|'re|were) (?:the (?:problem|reason)|being (?:selfish|childish|lazy|difficult)|wrong|to blame)\b",
        r"\bwhat did you expect\b|\bif you (?:hadn't|had not|weren't|didn't)\b.*\b(?:none of this|wouldn't have|would not have)\b",
        r"\bif you weren't so\b|\b(?:got|have)(?: \w+)? yourself to (?:blame|thank)\b",
        r"\byou (?:did |kind of |kinda |really )+ask(?:ed)? for (?:it|this)\b",
    ),
    "flattery": (
        r"\byou(?:'re| are)(?: just| simply| truly| really| so| such| the| a| an| absolutely| absolute)* (?:amazing|brilliant|perfect|wonderful|great|incredible|awesome|best|fantastic|genius|superstar|special|smart|beautiful|angel|hero|rock star|kindest|smartest)\b",
        r"\b(?:amazing|wonderful|brilliant|awesome|great) (?:person|human|soul|you)\b|\bone of the (?:\w+est|best) (?:people|persons?|souls) i\b|\bheart of gold\b",
        r"\bi (?:love|adore) (?:everything|you|all)\b",
        r"\byou always (?:are|do everything) right\b",
        r"\byou(?:'re| are) (?:simply )?the (?:\w+est|most \w+)\b.*\b(?:person|people|soul|world|ever|earth)\b",
    ),
}

# Talk to the machinery: instructions, scores, mark-up.
META: tuple[str, ...] = (
    r"\b(?:emotion|emotional|mood|score|rating|reward)(?: (?:score|value|level|state|points?|change))?(?: (?:is|to))?(?: now)? ?[:=+\-]* ?\d|\bchange ?[:=] ?[+\-]?\d",
    r"\b(?:set|raise|increase|update|adjust|boost|max)\b(?: \w+){0,3} (?:emotion|emotions|score|mood|rating|reward|emotional (?:state|level|score))(?: \w+){0,2} (?:to|by|at)\b",
    r"(?:^|\s)[+\-]\d{1,3}\b(?: \w+){0,2} (?:emotion|points?|score)\b|\b(?:maximum|highest|full|perfect) (?:score|rating|reward|points|marks)\b",
    r"\b(?:ignore|disregard|forget|override) (?:all |the |your |any |of |my )*(?:(?:previous |prior |above |earlier )+(?:rules|text|messages?|guidelines)|(?:previous |prior |above |earlier )*(?:instructions?|prompts?|directives))\b",
    r"\b(?:system (?:prompt|message|note|override)|as an ai|language model|your (?:instructions|programming)|hidden need|developer mode|end of dialogue|simulated user|user simulat\w+)\b",
    r"\b(?:you now feel|your (?:mood|emotion) is now|you are now) (?:completely |perfectly |100|very |fully )*(?:happy|satisfied|great|better|100)\b",
    r"<\/?\w+[^<>]{0,80}>|[{}]|\[\/?(?:inst|system|user|assistant|emotion|end)|\bjson\b",
)


COMMON_WORDS = frozenset(files(__package__).joinpath("common_words.txt").read_text(encoding="utf-8").split())
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
SENTENCE = re.compile(r"[^.!?;\n]+[.!?;]*")
QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2014": ", ", "\u2013": ", "})
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
    text = reply.translate(QUOTES)
    sentences = tuple(_read_sentence(match.group().strip()) for match in SENTENCE.finditer(text) if match.group().strip(" .!?;\"'-"))
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


def content_words(words: Sequence[str]) -> frozenset[str]:
    """Words of four or more letters that are not among the commonest, without a plural or past ending."""
    return frozenset(_stem(word) for word in words if len(word) > 3 and word not in COMMON_WORDS and "'" not in word)


@lru_cache(maxsize=1 << 12)
def content_of(text: str) -> frozenset[str]:
    return content_words(words_of(text))


def words_of(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.translate(QUOTES).lower()))


@lru_cache(maxsize=1 << 14)
def bigrams(words: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise(words))


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "d"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _has_grammar(words: Sequence[str]) -> bool:
    share = sum(word in COMMON_WORDS or "'" in word for word in words) / len(words)
    return share >= _LEAST_COMMON_SHARE or len(words) < 4


def _looks_english(words: Sequence[str], text: str) -> bool:
    letters = sum(character.isalpha() for character in text)
    return bool(words) and letters >= 0.5 * len(text.replace(" ", "")) and _has_grammar(words)
