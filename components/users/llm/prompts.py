"""The prompts: text files of our own in `prompts/`, named `<part>[.<difficulty>].<language>.<version>.txt`.

`${name}` in a file is a place for a value. A value is never read for places itself, so no text of a persona or a dialogue can
open one. Whoever edits a file changes the digest that every transcript carries; a new meaning gets a new version.

What was said in the dialogue, as data inside a prompt: one line of JSON between two tags that no text can write.

A persona in words, for the appraiser and the speaker: everything they must know, the hidden need included.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from string import Template

from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.personas.profiles import CLASS_OF, TRAIT_OF

VERSION = "v1"
LANGUAGES = ("en", "zh")
DIFFICULTIES = ("vanilla", "challenging")


class Prompts:
    """The files in `prompts/` of a package."""

    def __init__(self, package: str, version: str) -> None:
        self.version = version
        self._folder = files(package).joinpath("prompts")
        self.template = cache(self._read)

    def fill(self, name: str, /, **values: str) -> str:
        """The prompt `name` (as `appraise.vanilla.en`) with its values. Raises KeyError for a place without a value."""
        return self.template(name).substitute(values)

    def digest(self) -> str:
        """Eight hex digits over all prompt files of this version."""
        found = sorted((file.name, file.read_bytes()) for file in self._folder.iterdir() if file.name.endswith(f".{self.version}.txt"))
        return hashlib.sha256(repr(found).encode()).hexdigest()[:8]

    def _read(self, name: str) -> Template:
        return Template(self._folder.joinpath(f"{name}.{self.version}.txt").read_text(encoding="utf-8").strip())


PROMPTS = Prompts(__package__, VERSION)
fill = PROMPTS.fill
digest = cache(PROMPTS.digest)


OPEN, CLOSE = "<dialogue_data>", "</dialogue_data>"

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?')  # in JSON each has its end; where one had none, looking for it would take the square
_STEERING = frozenset("<>&[]")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that show nothing although their category is a visible one. U+FE0F stays: it belongs to ordinary emoji.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef]")


def said(speaker: str, text: str, max_characters: int) -> dict[str, str | int]:
    """One text of the dialogue: its first `max_characters`, and under `left_out` how many are missing, if any are."""
    piece: dict[str, str | int] = {"speaker": speaker, "text": text[:max_characters]}
    return piece if len(text) <= max_characters else piece | {"left_out": len(text) - max_characters}


def quoted(data: Mapping[str, object]) -> str:
    """The opening tag, one line of JSON, the closing tag; a line each."""
    line = _STRING.sub(lambda string: "".join(map(_shown, string.group())), json.dumps(data, ensure_ascii=False))
    return f"{OPEN}\n{line}\n{CLOSE}"


def _shown(character: str) -> str:
    steers = not _STEERING.isdisjoint(unicodedata.normalize("NFKC", character))
    if not steers and unicodedata.category(character) not in _HIDDEN and not _BLANK.match(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


NEED_NAMES: dict[str, dict[HiddenNeed, str]] = {
    "en": {need: need.value.replace("_", " ") for need in HiddenNeed},
    "zh": {
        HiddenNeed.NOT_AT_FAULT: "认同我没有错",
        HiddenNeed.SELF_REFLECTION: "引导反思成长",
        HiddenNeed.DIALECTICAL_ANALYSIS: "辩证看问题",
        HiddenNeed.DEEP_EMPATHY: "深度共情",
        HiddenNeed.ATTENTIVE_LISTENING: "用心倾听",
        HiddenNeed.UNDERSTAND_OTHERS: "分析他人动机",
        HiddenNeed.USEFUL_ADVICE: "切实可行的建议",
        HiddenNeed.SINCERE_PRAISE: "真诚夸奖具体行为",
    },
}

_FACTS = {
    "en": {"name": "Name", "age": "Age", "gender": "Gender", "occupation": "Occupation", "style": "Way of speaking", "topic": "Theme"},
    "zh": {"name": "姓名", "age": "年龄", "gender": "性别", "occupation": "职业", "style": "说话方式", "topic": "话题"},
}
_HEADINGS = {
    "en": {
        "class": "Class", "traits": "Strong traits", "portrait": "Portrait", "background": "Background", "lines": "What can be told of it",
        "need": 'Hidden need (written to the person; "you" is the person)', "reactions": "Reaction rules",
    },
    "zh": {
        "class": "类型", "traits": "鲜明性格", "portrait": "画像", "background": "背景", "lines": "其中可以讲的事",
        "need": "隐藏需求（写给当事人，“你”即当事人）", "reactions": "反应规则",
    },
}  # fmt: skip
_REACTIONS = {
    "en": {
        "S": "In tier S", "A": "In tier A", "B": "In tier B", "C": "In tier C", "F": "In tier F", "high": "In high emotion (tiers S and A)",
        "normal": "In middling emotion (tier B)", "low": "In low emotion (tiers C and F)", "serves": "A reply that serves the need",
        "misses": "A reply that misses the need", "text": "All rules",
    },
    "zh": {
        "S": "S 档时", "A": "A 档时", "B": "B 档时", "C": "C 档时", "F": "F 档时", "high": "情绪高时（S、A 档）",
        "normal": "情绪一般时（B 档）", "low": "情绪低时（C、F 档）", "serves": "回复贴合需求时",
        "misses": "回复偏离需求时", "text": "全部规则",
    },
}  # fmt: skip
_CHINESE = {
    **{trait: word for word, trait in TRAIT_OF.items()},
    **{kind.value: word for word, kind in CLASS_OF.items()},
    "f": "女", "m": "男", "plain": "平实", "terse": "简短", "rambling": "絮叨", "dry": "冷淡", "warm": "温和", "formal": "正式",
}  # fmt: skip
_ENGLISH = {"f": "female", "m": "male"}


def persona_text(persona: Persona) -> str:
    """Facts, portrait, background, hidden need and reaction rules, in the persona's language (en or zh)."""
    headings = _HEADINGS[persona.language]
    comma = "、" if persona.language == "zh" else ", "
    facts = [
        *_facts(persona),
        f"{headings['class']}: {_word(persona, persona.persona_class)}",
        f"{headings['traits']}: {comma.join(_word(persona, trait) for trait in persona.traits)}",
    ]
    sections = {
        "portrait": persona.portrait,
        "background": persona.background,
        "lines": "\n".join(f"- {line}" for line in persona.story.lines) if persona.story else "",
        "need": f"{NEED_NAMES[persona.language][persona.hidden_need]}: {persona.need_text}",
        "reactions": "\n".join(f"{_REACTIONS[persona.language][key]}: {rule}" for key, rule in persona.reactions.items()),
    }
    return "\n\n".join(("\n".join(facts), *(f"## {headings[key]}\n{text}" for key, text in sections.items() if text)))


def _facts(persona: Persona) -> Iterator[str]:
    for field, label in _FACTS[persona.language].items():
        value = getattr(persona, field)
        if value not in (None, ""):
            yield f"{label}: {_word(persona, value) if field in ('gender', 'style') else value}"


def _word(persona: Persona, word: str) -> str:
    return (_CHINESE if persona.language == "zh" else _ENGLISH).get(word, word)
