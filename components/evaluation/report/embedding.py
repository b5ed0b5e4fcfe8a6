"""All dialogues inside the page, as JSON that a script tag can hold: every text is stored once and referred to by its number.

The same dialogue takes about a fifth of its transcript line, because a scripted user's reasons repeat. What does not fit is left out by
persona, the same personas for every variant, so that what is shown can still be compared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from components.evaluation.report.views import DialogueView, EvidenceView, TurnView


@dataclass(frozen=True)
class Embedded:
    """`json` is safe inside a script element. `shown` of `total` dialogues fitted."""

    json: str
    shown: int
    total: int


class _Texts:
    """Texts in order of first use."""

    def __init__(self) -> None:
        self.number_of: dict[str, int] = {"": 0}

    def number(self, text: str) -> int:
        return self.number_of.setdefault(text, len(self.number_of))


def embed(views: Sequence[DialogueView], limit_bytes: int) -> Embedded:
    """Encode whole dialogues until `limit_bytes` of JSON are reached."""
    texts = _Texts()
    rows: list[str] = []
    used = known = 0
    for view in sorted(views, key=lambda view: view.persona):
        row = json.dumps(_encoded(view, texts), separators=(",", ":"))
        added = list(texts.number_of)[known:]
        used += len(row) + sum(len(safe_json(text)) for text in added) + len(added)
        if used > limit_bytes:
            break
        known = len(texts.number_of)
        rows.append(row)
    rows = _whole_personas(rows, sorted(view.persona for view in views))
    head = {
        "dialogue": [field.name for field in fields(DialogueView)],
        "turn": [field.name for field in fields(TurnView)],
        "evidence": [field.name for field in fields(EvidenceView)],
        "texts": list(texts.number_of)[: known or 1],
    }
    return Embedded(f'{safe_json(head)[:-1]},"dialogues":[{",".join(rows)}]}}', len(rows), len(views))


def _whole_personas(rows: list[str], personas: list[str]) -> list[str]:
    """Without the last persona if only some of its dialogues fitted."""
    kept = len(rows)
    if kept < len(personas):
        while kept and personas[kept - 1] == personas[kept]:
            kept -= 1
    return rows[:kept]


def _encoded(value: Any, texts: _Texts) -> Any:
    """A view as the list of its fields: a text as its number, None as null, nested views as lists."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return [_encoded(item, texts) for item in value]
    if is_dataclass(value):
        return [_encoded(getattr(value, field.name), texts) for field in fields(value)]
    return texts.number(value)


def safe_json(value: Any) -> str:
    """JSON in which no text can close a script element or open a comment, and no line separator breaks a script."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
