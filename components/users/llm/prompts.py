"""The prompts: text files of our own in `prompts/`, named `<part>[.<difficulty>].<language>.<version>.txt`.

`${name}` in a file is a place for a value. A value is never read for places itself, so no text of a persona or a dialogue can
open one. Whoever edits a file changes the digest that every transcript carries; a new meaning gets a new version. What was said in the dialogue is
data inside a prompt: one line of JSON between two tags that no text can write.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template

from rlver.components.domain.files import load_yaml
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
# Not Cn: which characters are assigned depends on the version of Python, and stored answers are found by their prompts.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# Letters and marks that show nothing although their category is a visible one, and what is kept for such. U+FE0F stays: it belongs to ordinary emoji.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufdd0-\ufdef\ufe00-\ufe0e\uffa0\ufff0-\ufff8\ufffe\uffff"
    "\U00013430-\U0001343f\U000e0000-\U000e0fff"
    + "".join(f"{chr(end - 2)}{chr(end - 1)}" for end in range(0x20000, 0x120000, 0x10000))
    + "]"
)


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


@cache
def _words(language: str) -> dict[str, dict[str, str]]:
    """What a persona is told in (persona.yaml); traits and classes in the words of the profiles that are imported."""
    words: dict[str, dict[str, str]] = load_yaml(Path(__file__).parent / "persona.yaml")[language]
    if language == "zh":
        words["words"] |= {trait: word for word, trait in (TRAIT_OF | CLASS_OF).items()}
    return words


def persona_text(persona: Persona) -> str:
    """Everything that the appraiser and the speaker must know, the hidden need included, in the persona's language (en or zh)."""
    words = _words(persona.language)
    headings = words["headings"]
    comma = "、" if persona.language == "zh" else ", "

    def called(word: str) -> str:
        return words["words"].get(word, word)

    known = {field: value for field in words["facts"] if (value := getattr(persona, field)) not in (None, "")}
    facts = [
        *(f"{words['facts'][field]}: {called(value) if field in ('gender', 'style') else value}" for field, value in known.items()),
        f"{headings['class']}: {called(persona.persona_class)}",
        f"{headings['traits']}: {comma.join(map(called, persona.traits))}",
    ]
    sections = {
        "portrait": persona.portrait,
        "background": persona.background,
        "lines": "\n".join(f"- {line}" for line in persona.story.lines) if persona.story else "",
        "need": f"{NEED_NAMES[persona.language][persona.hidden_need]}: {persona.need_text}",
        "reactions": "\n".join(f"{words['reactions'][key]}: {rule}" for key, rule in persona.reactions.items()),
    }
    return "\n\n".join(("\n".join(facts), *(f"## {headings[key]}\n{text}" for key, text in sections.items() if text)))
