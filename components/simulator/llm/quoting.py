"""What was said in the dialogue, as data inside a prompt: one line of JSON between two tags that no text can write.

The policy wants a high score, and the model that gives the score reads the policy's text, so that text must not be able to leave
its place. Inside every string `<`, `>`, `&`, square brackets and their look-alikes are written as \\uXXXX: neither the closing tag
nor a control token of a chat template can occur. A line break is written \\n: no text begins a line. What Unicode keeps invisible
(control and format characters, zero width, bidi, blank letters, tags) is written as \\uXXXX too. Read as JSON, the line gives every
text back.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping

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
