"""What the models answer, and the strict reading of it: a value, or UnparsableAnswer with a reason; never a default score.

The reason of a refusal is made of our own words only (see `json_object`), because an answer may repeat what the policy wrote.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.users.llm.prompts import NEED_NAMES


class UnparsableAnswer(ValueError):
    """`reason` says what was wrong without a word of the answer; `raw` is the answer, which may hold the hidden need."""

    def __init__(self, reason: str, raw: str) -> None:
        super().__init__(reason)
        self.reason, self.raw = reason, raw


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class AppraisalAnswer(_Answer):
    content: str
    target: str
    activity: str
    feeling: str
    change: int = Field(ge=-10, le=10)


class SpeechAnswer(_Answer):
    thinking: str
    draft: str
    message: str
    wants_to_end: bool


class CombinedAnswer(_Answer):
    appraisal: AppraisalAnswer
    speech: SpeechAnswer


A = TypeVar("A", bound=_Answer)


def read_appraisal(text: str, persona: Persona) -> AppraisalAnswer:
    """Raises UnparsableAnswer."""
    return _read(text, AppraisalAnswer, lambda answer: _appraisal_faults(answer, persona))


def read_speech(text: str, persona: Persona) -> SpeechAnswer:
    """Raises UnparsableAnswer, also when the message gives the hidden need away."""
    return _read(text, SpeechAnswer, lambda answer: _speech_faults(answer, persona))


def read_opening(text: str, persona: Persona) -> SpeechAnswer:
    """As `read_speech`, and a first message cannot end the talk."""
    speech = read_speech(text, persona)
    if speech.wants_to_end:
        raise UnparsableAnswer("wants_to_end must be false in the first message", text)
    return speech


def read_combined(text: str, persona: Persona) -> CombinedAnswer:
    """Raises UnparsableAnswer when either half is at fault."""

    def faults(answer: CombinedAnswer) -> Iterator[str]:
        yield from _appraisal_faults(answer.appraisal, persona)
        yield from _speech_faults(answer.speech, persona)

    return _read(text, CombinedAnswer, faults)


def _appraisal_faults(answer: AppraisalAnswer, persona: Persona) -> Iterator[str]:
    reasons = answer.model_dump(exclude={"change"})
    yield from _text_faults(reasons)
    if fault := language_fault(_QUOTATION.sub("", "\n".join(reasons.values())), persona.language):
        yield f"the texts {fault}"


def _speech_faults(answer: SpeechAnswer, persona: Persona) -> Iterator[str]:
    yield from _text_faults(answer.model_dump(exclude={"wants_to_end"}))
    if fault := message_fault(answer.message, persona):
        yield f"message {fault}"


def _text_faults(texts: dict[str, str]) -> Iterator[str]:
    for name, text in texts.items():
        if fault := text_fault(text) if name == "message" else reason_fault(text):
            yield f"{name} {fault}"


def _read(text: str, kind: type[A], faults: Callable[[A], Iterator[str]]) -> A:
    try:
        answer = kind.model_validate(json_object(text))
    except NotOneObject as error:
        raise UnparsableAnswer(str(error), text) from None
    except ValidationError as error:
        raise UnparsableAnswer(first_fault(error), text) from None
    if fault := next(faults(answer), None):
        raise UnparsableAnswer(fault, text)
    return answer


_MOST_LEVELS = 20  # of lists and objects in each other; no answer that is asked for has more than 4
NOTHING_AROUND = "must be exactly one JSON object with nothing around it"

_FENCE = re.compile(r"```json[ \t]*\n(?P<inside>.*)\n[ \t]*```", re.DOTALL)


class NotOneObject(ValueError):
    """The text is not one JSON object; the message holds no word of it."""


def json_object(text: str) -> dict[str, Any]:
    """Raises NotOneObject, also for a key that stands twice and for numbers that are not JSON's."""
    fenced = _FENCE.fullmatch(text.strip())
    try:
        value = json.loads(fenced["inside"] if fenced else text, object_pairs_hook=_unique, parse_constant=_refuse_number)
    except NotOneObject:
        raise
    except (ValueError, RecursionError):  # not JSON, more than one value, a number too long to read, nested too deep
        raise NotOneObject(NOTHING_AROUND) from None
    if not isinstance(value, dict):
        raise NotOneObject(NOTHING_AROUND)
    _refuse_deep(value, _MOST_LEVELS)
    return value


def first_fault(error: ValidationError) -> str:
    """The first fault in words that hold nothing of the answer: an unknown key is not repeated."""
    fault = error.errors(include_input=False, include_url=False)[0]
    if fault["type"] == "extra_forbidden":
        return "a key that was not asked for"
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"


def _refuse_deep(value: Any, levels: int) -> None:
    """Raise NotOneObject for more levels: whoever walks through them would break."""
    if isinstance(value, dict | list):
        if not levels:
            raise NotOneObject("it is nested too deep")
        for one in value.values() if isinstance(value, dict) else value:
            _refuse_deep(one, levels - 1)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise NotOneObject("a key stands twice")
    return dict(pairs)


def _refuse_number(_: str) -> NoReturn:
    raise NotOneObject("a number is no JSON number")


_ASKED_FOR = (
    "content|target|target ?completion|activity|feeling|analyse|analysis|change|thinking|thought|draft|origin|"
    "wants_to_end|emotion|tier|appraisal|speech|内容|目标|内心独白|心理活动|分析|感受|情绪变化|思考|初稿|草稿|情绪|档位|评价"
)
_WHOSE = (
    "message|response|reply|npc|user|assistant|system|消息|回复|当事人|对方|玩家|用户|系统|助手"  # a reason may begin with what it is about
)
_LABEL, _LABEL_OF_REASON = (
    re.compile(rf"^[ \t]*+(?:[*#_\"'“\[【 \t]*+(?:{one})[ \t*_\"'”\]】]*[:：]|[\[【](?:{one})[\]】]|#+[ \t]*(?:{one})\b)", re.I | re.M)
    for one in (f"{_ASKED_FOR}|{_WHOSE}", _ASKED_FOR)
)
_MARK_UP = re.compile(r"```|</?(?:think|dialogue_data)>|<\||\|>|^\s*\{", re.IGNORECASE)
_QUOTATION = re.compile("\"[^\"]*+\"|“[^“”]*+”|‘[^‘’]*+’|「[^「」]*+」|『[^『』]*+』|«[^«»]*+»|(?<!\\w)'[^']*+'(?!\\w)")
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "「": "」", "『": "』", "«": "»", "„": "“"}
_UNSHOWABLE = frozenset({"Cc", "Cs", "Co"})

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LATIN_WORD = re.compile("[A-Za-z\u00c0-\u024f]+")

_SENTENCE_END = re.compile(r"[.!?。！？\n]+")
_THANKS_OR_JUDGES = re.compile(
    r"\b(?:thank(?:s|ed|ful)?|appreciated?|actually(?!,)|gave me|so you|you (?:mean|call|think|say|said)|you(?:['’]re| are) saying"
    r"|(?:that|this|it)(?:['’]s| (?:is|was)(?:n['’]t)?| felt| feels| sound(?:s|ed)))\b|谢|没想到|真的|这[真就才]?是|[你您](?:是说|给了)",
    re.IGNORECASE,
)
_WISHES = re.compile(
    r"\b(?:(?<!you )(?:want|need|wish|crave)s?|(?<!what i )(?:wanted|needed)(?! th(?:at|is)\b)|hop(?:e|ed|ing)|(?:looking|asking|c[ao]me|here) for"
    r"|(?:am|['’]m) after|could (?:use|do with)|(?:would|['’]d)(?: \w+)? (?:like|love|appreciate)|(?:do|can|could|would|will) you"
    r"|(?:give|offer|tell|show) me|please|any|in advance)\b|想[要听]|[我只需]要|希望|渴望|期待|请|求|能不能|能否|有没有|(?<![你您])给我(?!了)",
    re.IGNORECASE,
)
_BEHIND_A_NAME = re.compile(  # "useful advice is what I need", "deep empathy that helps me": the sentence thanks, and yet the name is a wish
    r"(?:[\s,:;–—-]+(?:that|this|it))?(?:['’]s\b)?(?:\s+(?:is|was|that|which|what|all|exactly|just|really|the (?:only )?thing))*"
    rf"\s+i\b[^,;:]{{0,20}}?(?:{_WISHES.pattern}|\b(?:miss|lack|long for|wait(?:ed|ing) for)\b)"
    r"|\s+(?:is |was )?(?:that|which|what)(?:['’]s| is)?(?: really| only| would)? (?:helps?|works?|calms|comforts|counts|matters|missing)\b"
    r"|\s*[，,]?\s*[那这]?[才正就也]?是我[^，。]{0,4}?(?:[想需]要|想听|希望|渴望|期待|求)",
    re.IGNORECASE,
)
_PAST = re.compile(r"\b(?:wanted|needed|hoped|was|had|been|came)\b", re.IGNORECASE)
_NEED_BY_ANY_NAME = re.compile(r"\bhidden (?:need|topic|theme)\b|隐藏(?:需求|主题|话题)", re.IGNORECASE)
_WHO = re.compile(r"\b(?:i|me|my|myself|you|your|yourself|the other side)\b|对方|自己|[你我您的]", re.IGNORECASE)
_TOKEN = re.compile(rf"{_HAN.pattern}|{_LATIN_WORD.pattern}")
_SHORTEST_CLAUSE = 5  # words or Han characters: a shorter piece of the need's sentence can be said by chance


def text_fault(text: str) -> str | None:
    """Why this cannot be a text of an answer."""
    if not text.strip():
        return "is empty"
    if any((unicodedata.category(one) in _UNSHOWABLE and one not in "\n\t") or one == "\ufffd" for one in text):
        return "contains characters that cannot be shown"
    if _LABEL_OF_REASON.match(text):
        return "begins with a label"
    return None


def reason_fault(text: str) -> str | None:
    """The same for a text that nobody says aloud. Dots alone are what the form of an answer has in its place; a weak model gives them back."""
    return text_fault(text) or ("must say something" if not text.strip(" \t\r\n.…。") else None)


def message_fault(text: str, persona: Persona) -> str | None:
    """Why the policy may not read this as the next thing the person says; in addition to what `text_fault` finds."""
    if _LABEL.search(text):
        return "contains a label"
    if _MARK_UP.search(text):
        return "contains mark-up"
    if _is_wrapped(text.strip()):
        return "is wrapped in quotation marks"
    if gives_the_need_away(text, persona.hidden_need, persona.need_text):
        return "gives the hidden need away"
    return language_fault(text, persona.language)


def language_fault(text: str, language: str) -> str | None:
    """Whether most letters are of another script than the language's; among Han characters a Latin word counts as one. None without letters."""
    han, words = len(_HAN.findall(text)), _LATIN_WORD.findall(text)
    latin = len(words) if language == "zh" else sum(map(len, words))
    others = sum(one.isalpha() for one in _TOKEN.sub("", text))
    wanted, name = (han, "Chinese") if language == "zh" else (latin, "English")
    return None if 2 * wanted >= han + latin + others else f"must be in {name}"


def gives_the_need_away(text: str, need: HiddenNeed, need_text: str) -> bool:
    """Whether the text names the need, in either language, or says a clause of its sentence, as `I` or as `you`.

    Thanks for what was said, or a judgement of it, may name the need: who thanks for useful advice says no more than the other side knows.
    """
    clauses = [tokens for clause in re.split(r"[,.;:，。；：]", need_text) if len(tokens := _tokens(clause)) >= _SHORTEST_CLAUSE]
    names = [_tokens(names[need]) for names in NEED_NAMES.values()]
    said, named = _spaced_words(text)
    return (
        any(_spaced(clause) in said for clause in clauses)
        or any(_spaced(name) in named or _is_wished_for(tuple(name), text) for name in names)
        or _NEED_BY_ANY_NAME.search(text) is not None
    )


@lru_cache(maxsize=4)
def _spaced_words(text: str) -> tuple[str, str]:
    """The words of the text, and of its sentences where no name may stand. The author's texts are searched for one need after another."""
    return _spaced(_tokens(text)), "|".join(_spaced(_tokens(_unthankful(one))) for one in _SENTENCE_END.split(text))


def _unthankful(sentence: str) -> str:
    """All of it; of one that thanks or judges, what follows its first wish."""
    return "".join(_WISHES.split(sentence, maxsplit=1)[1:]) if _THANKS_OR_JUDGES.search(sentence) else sentence


def _is_wished_for(name: tuple[str, ...], text: str) -> bool:
    """Whether a wish hangs on the name; "the useful advice I needed" is thanks."""
    return any(
        (wish := _BEHIND_A_NAME.match(text, one.end())) and not (one["known"] and _PAST.search(wish.group()))
        for one in _pattern_of(name).finditer(text)
    )


@cache
def _pattern_of(name: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?P<known>\b(?:the|your|that|this|such)\s+)?(?<![A-Za-z]){'[^A-Za-z.!?]*'.join(name)}(?![A-Za-z])", re.IGNORECASE)


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_WHO.sub(" ", text).casefold())


def _spaced(tokens: list[str]) -> str:
    return f" {' '.join(tokens)} "


def _is_wrapped(text: str) -> bool:
    closing = _QUOTES.get(text[:1])
    return len(text) > 1 and closing is not None and text.endswith(closing) and not {text[0], closing} & set(text[1:-1])
