"""RLVER/SAGE user profiles (Chinese) as personas. The source record stays in `original`, as it was.

The scene of a profile carries the hidden need after a marker and rules how the person reacts; both are cut from the background.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlver.components.domain.persona import HiddenNeed, Persona, PersonaClass
from rlver.components.personas.schema import Problem, SourceRow, read_rows, validate_rows

IMPORTER = "rlver-import/1"

CLASS_OF = {"负面型": PersonaClass.NEGATIVE, "被动型": PersonaClass.PASSIVE, "回避型": PersonaClass.AVOIDANT}

TRAIT_OF = {
    "愤怒": "angry", "暴躁": "irritable", "粗鄙": "coarse", "狂妄": "presumptuous", "傲慢": "haughty", "虚荣": "vain",
    "自私": "selfish", "刻薄": "mean", "懒惰": "lazy", "多疑": "suspicious", "内向": "introverted", "直率": "blunt",
    "愤懑": "resentful", "疯癫": "erratic", "焦虑": "anxious", "谨慎": "cautious", "自卑": "insecure", "耐心": "patient",
    "怯懦": "timid", "乐观": "optimistic", "谦逊": "modest", "宽容": "tolerant", "沉稳": "calm", "机敏": "quick-witted",
    "逃避": "evasive", "敏感": "sensitive", "高冷": "aloof", "沉默寡言": "taciturn",
}  # fmt: skip

# What the need sentence of a profile is about; exactly one must match.
NEED_SIGNS: dict[HiddenNeed, re.Pattern[str]] = {
    HiddenNeed.NOT_AT_FAULT: re.compile("没有错|没错|没有任何责任"),
    HiddenNeed.SELF_REFLECTION: re.compile("反思"),
    HiddenNeed.DIALECTICAL_ANALYSIS: re.compile("辩证"),
    HiddenNeed.DEEP_EMPATHY: re.compile("共情"),
    HiddenNeed.ATTENTIVE_LISTENING: re.compile("倾听"),
    HiddenNeed.UNDERSTAND_OTHERS: re.compile("其他人物|他人动机|这么做的原因"),
    HiddenNeed.USEFUL_ADVICE: re.compile("建议"),
    HiddenNeed.SINCERE_PRAISE: re.compile("夸奖|夸赞|赞美"),
}


class UnreadableProfile(ValueError):
    """One field of a profile cannot be read."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


def import_profiles(source: Path, split: str) -> list[Persona]:
    """Personas of a profile file, plain or gzipped JSONL, in its order. Raises InvalidPersonas naming every bad row."""
    if split not in ("train", "test"):
        raise ValueError(f"split must be train or test, got {split!r}")
    rows, problems = read_rows(source)
    converted: list[SourceRow] = []
    for row in rows:
        values, faults = _converted(row.values, split)
        problems += [Problem(source.name, row.line, fault.field, fault.reason) for fault in faults]
        if not faults:
            converted.append(SourceRow(row.line, values))
    return validate_rows(source.name, converted, problems)


def _converted(profile: Mapping[str, Any], split: str) -> tuple[dict[str, Any], list[UnreadableProfile]]:
    faults: list[UnreadableProfile] = []
    for field, value in profile.items():
        if not isinstance(value, str) and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            faults.append(UnreadableProfile(field, f"expected text or a list of texts, got {type(value).__name__}"))
    for field in ("id", "player", "scene", "main_cha", "task"):
        if field not in profile or profile[field] == "":
            faults.append(UnreadableProfile(field, "is missing"))
        elif isinstance(profile[field], list):
            faults.append(UnreadableProfile(field, "expected text, got list"))
    if faults:
        return {}, faults

    def read(parse: Any, *arguments: Any) -> Any:
        try:
            return parse(*arguments)
        except UnreadableProfile as fault:
            faults.append(fault)
            return None

    player, scene = profile["player"], profile["scene"]
    background, reactions = scene_parts(scene)
    values = {
        "persona_id": profile["id"],
        "language": "zh",
        "source": "rlver",
        "split": split,
        "hidden_need": read(need_of, profile["task"]),
        "need_text": profile["task"],
        "persona_class": read(class_of, profile["main_cha"]),
        "traits": read(traits_of, profile.get("cha_group")),
        "portrait": player,
        "background": background,
        "reactions": reactions,
        "first_line": profile.get("first_talk") or None,
        "topic": profile.get("topic", ""),
        "age": age_of(player),
        "gender": gender_of(player),
        "occupation": labelled(player, "职业"),
        "name": labelled(player, "姓名"),
        "generator": IMPORTER,
        "original": dict(profile),
    }
    return values, faults


def need_of(task: str) -> HiddenNeed:
    """The need that the sentence `task` means. Raises UnreadableProfile unless exactly one fits."""
    fitting = [need for need, sign in NEED_SIGNS.items() if sign.search(task)]
    if len(fitting) != 1:
        raise UnreadableProfile("task", f"fits {len(fitting)} hidden needs, must fit one: {task!r}")
    return fitting[0]


def class_of(word: str) -> PersonaClass:
    """负面型 and so on. Raises UnreadableProfile for another word."""
    if word not in CLASS_OF:
        raise UnreadableProfile("main_cha", f"must be one of {', '.join(CLASS_OF)}, got {word!r}")
    return CLASS_OF[word]


def traits_of(words: Any) -> list[str]:
    """Three English traits. Raises UnreadableProfile for another number or an unknown word."""
    if not isinstance(words, list) or len(words) != 3:
        raise UnreadableProfile("cha_group", f"expected three traits, got {words!r}")
    unknown = [word for word in words if word not in TRAIT_OF]
    if unknown:
        raise UnreadableProfile("cha_group", f"unknown trait {', '.join(unknown)}")
    return [TRAIT_OF[word] for word in words]


GENDER_OF = {"男": "m", "女": "f"}
SHORTEST_RULE = 8  # characters; a shorter block means that the rules were cut in the wrong place

_NEED_MARKER = re.compile(r"\n?(?<!#)#{2,}\s*隐藏主题\s*[:：]\s*\**(?P<need>.*)\Z", re.DOTALL)
# Decoration from the start of a line on. It is tried from the end of a word only: from every line, blank ones would take their square.
_DECORATED = r"(?P<kept>\A|(?<=\w)[^\w\n]*+\n)\W*+"
_STATED = re.compile(rf"{_DECORATED}隐藏主题\W*[:：]\W*[^\n]*\n?(?:\W*+隐藏主题\W*[:：]\W*[^\n]*\n?)*")
_STATE_HEADING = re.compile(r"^.{0,20}当前(?:的)?状态", re.MULTILINE)
_RULES_BEGIN = re.compile(
    r"^(?:.{0,30}emotion.{0,30}|.{0,20}(?:情绪(?:状态)?(?:较)?(?:高|低|一般)|[高低]情绪).{0,20}|.{0,30}不同.{0,4}(?:状态|情绪).{0,20}"
    r"|.{0,30}(?:反应(?:状态)?|NPC.{0,20}(?:回复|影响).{0,20})\W{0,4})$",
    re.MULTILINE | re.IGNORECASE,
)


def _mark(before: str, words: str) -> re.Pattern[str]:
    return re.compile(rf"^[^\n。，：:]{{0,{before}}}(?:{words})[^\n。，：:？]{{0,30}}[：:？]?", re.MULTILINE | re.IGNORECASE)


_TIER_MARKS: dict[str, re.Pattern[str]] = {
    "high": _mark("16", "(?:emotion|情绪).{0,6}高|高.{0,2}(?:emotion|情绪)"),
    "normal": _mark("16", "(?:emotion|情绪).{0,6}(?:一般|中等|普通)|(?:一般|中等).{0,2}(?:emotion|情绪)"),
    "low": _mark("16", "(?:emotion|情绪).{0,6}低|低.{0,2}(?:emotion|情绪)"),
}
_REPLY_MARKS: dict[str, re.Pattern[str]] = {
    "serves": _mark("30", "(?<!不)(?<!未)(?:贴合|符合|契合)|正面"),
    "misses": _mark("30", "偏离|不贴合|不符合|负面"),
}


def scene_parts(scene: str) -> tuple[str, dict[str, str]]:
    """Background and reactions. What states the need is dropped; rules that cannot be told apart stay whole under `text`."""
    story = _NEED_MARKER.sub("", scene).rstrip()
    state = _STATE_HEADING.search(story)
    begin = _RULES_BEGIN.search(story, state.end() if state else 0)
    start = begin.start() if begin else _first_paragraph_about(story, "emotion")
    rules = story[start:]
    return _STATED.sub(r"\g<kept>", story[:start]).rstrip(" \n#*-"), _reactions(rules) if rules else {}


def _reactions(rules: str) -> dict[str, str]:
    found = {key: match for key, mark in _TIER_MARKS.items() if (match := mark.search(rules))}
    last = max((match.end() for match in found.values()), default=0)
    found |= {key: match for key, mark in _REPLY_MARKS.items() if (match := mark.search(rules, last))}
    if len(found) < len(_TIER_MARKS) + len(_REPLY_MARKS):
        return {"text": rules}
    ordered = sorted(found.items(), key=lambda item: item[1].start())
    ends = [match.start() for _, match in ordered[1:]] + [len(rules)]
    blocks = {key: _block(rules[match.end() : end]) for (key, match), end in zip(ordered, ends, strict=True)}
    return blocks if min(map(len, blocks.values())) >= SHORTEST_RULE else {"text": rules}


def _first_paragraph_about(story: str, word: str) -> int:
    """Where the first paragraph with the word begins; the end of the story if there is none."""
    found = story.find(word)
    return len(story) if found < 0 else story.rfind("\n\n", 0, found) + 2


def _block(text: str) -> str:
    """Text of one rule without the decoration around it and without the heading of the next section."""
    lines = text.strip().split("\n")
    while len(lines) > 1 and (lines[-1].strip(" *#-_") == "" or re.fullmatch(r"[ \d.]*[#*][^。]{0,45}", lines[-1])):
        lines.pop()
    return "\n".join(lines).strip(" \n*：:-#")


def labelled(player: str, label: str) -> str | None:
    """The value of a line `* <label>：value`, or None."""
    match = re.search(rf"{_DECORATED}{label}\W*?[:：]\**[ \t]*(?P<value>\S[^\n]*)$", player, re.MULTILINE)
    return match["value"].strip() if match else None


def age_of(player: str) -> int | None:
    """Years, or None."""
    digits = re.match(r"\d{1,9}", labelled(player, "年龄") or "")  # more are no age either, and may be too many for int()
    return int(digits.group()) if digits else None


def gender_of(player: str) -> str | None:
    """f, m or None."""
    return GENDER_OF.get((labelled(player, "性别") or "")[:1])
