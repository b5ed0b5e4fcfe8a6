"""What may not stand in a model's text: nothing at all, leaked labels, wrapping quotes, another language, the hidden need.

Each function gives a reason in words of our own, or None. Language is told by script: Han against Latin and all others.
"""

from __future__ import annotations

import re
import unicodedata

from components.personas.persona import HiddenNeed, Persona
from components.simulator.llm.portrait import NEED_NAMES

_LABELS = (
    "content|target|target ?completion|activity|feeling|analyse|analysis|change|thinking|thought|draft|origin|message|response|reply|"
    "wants_to_end|emotion|tier|appraisal|speech|npc|user|assistant|system|"
    "内容|目标|内心独白|心理活动|分析|感受|情绪变化|思考|初稿|草稿|消息|回复|情绪|档位|评价|当事人|对方|玩家|用户|系统|助手"
)
_LABEL = re.compile(
    rf"^[ \t]*+(?:[*#_\"'“\[【 \t]*+(?:{_LABELS})[ \t*_\"'”\]】]*[:：]|[\[【](?:{_LABELS})[\]】]|#+[ \t]*(?:{_LABELS})\b)", re.I | re.M
)
_MARK_UP = re.compile(r"```|</?(?:think|dialogue_data)>|<\||\|>|^\s*\{", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "「": "」", "『": "』", "«": "»", "„": "“"}
_UNSHOWABLE = frozenset({"Cc", "Cs", "Co"})

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LATIN_WORD = re.compile("[A-Za-z\u00c0-\u024f]+")

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
    if _LABEL.match(text):
        return "begins with a label"
    return None


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
    """Whether most of the text is in another script than the language's. A text without letters is in every language."""
    han, latin = len(_HAN.findall(text)), len(_LATIN_WORD.findall(text))
    others = sum(one.isalpha() for one in _TOKEN.sub("", text))
    wanted, name = (han, "Chinese") if language == "zh" else (latin, "English")
    return None if 2 * wanted >= han + latin + others else f"must be in {name}"


def gives_the_need_away(text: str, need: HiddenNeed, need_text: str) -> bool:
    """Whether the text names the hidden need, in either language, or says a clause of its sentence, as `I` or as `you`."""
    clauses = [tokens for clause in re.split(r"[,.;:，。；：]", need_text) if len(tokens := _tokens(clause)) >= _SHORTEST_CLAUSE]
    names = [_tokens(names[need]) for names in NEED_NAMES.values()]
    spaced = _spaced(_tokens(text))
    return any(_spaced(telling) in spaced for telling in (*names, *clauses)) or _NEED_BY_ANY_NAME.search(text) is not None


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_WHO.sub(" ", text).casefold())


def _spaced(tokens: list[str]) -> str:
    return f" {' '.join(tokens)} "


def _is_wrapped(text: str) -> bool:
    closing = _QUOTES.get(text[:1])
    return len(text) > 1 and closing is not None and text.endswith(closing) and not {text[0], closing} & set(text[1:-1])
