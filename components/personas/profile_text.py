"""Reading the prose of an RLVER profile: labelled lines of the player text, story and reaction rules of the scene.

The scenes were written by a model, so headings differ from row to row. What cannot be told apart stays whole.
"""

from __future__ import annotations

import re

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
    digits = re.match(r"\d+", labelled(player, "年龄") or "")
    return int(digits.group()) if digits else None


def gender_of(player: str) -> str | None:
    """f, m or None."""
    return GENDER_OF.get((labelled(player, "性别") or "")[:1])
