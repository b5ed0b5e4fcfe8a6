"""A persona in words, for the appraiser and the speaker: everything they must know, the hidden need included.

Left out are the administrative fields and, of a structured story, what the scripted user keeps as phrasings (deeds, steps,
motives, own part, hurts): the background says the same as prose, and the motives are no knowledge of this person.
"""

from __future__ import annotations

from collections.abc import Iterator

from components.personas.importers import CLASS_OF, TRAIT_OF
from components.personas.persona import HiddenNeed, Persona

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
