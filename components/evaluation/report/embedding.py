"""All dialogues inside the page: JSON in which every text stands once and is referred to by its number, gzipped, as base64.

What does not fit is left out by persona, the same personas for every variant, so that what is shown can still be compared. Base64 has no
character that means anything to HTML, so no text of a model can leave its element.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from components.evaluation.report.views import DialogueView, EvidenceView, TurnView


@dataclass(frozen=True)
class Embedded:
    """`packed` is base64 of gzipped JSON. `shown` of `total` dialogues fitted."""

    packed: str
    shown: int
    total: int


class _Texts:
    """Texts in order of first use."""

    def __init__(self) -> None:
        self.number_of: dict[str, int] = {"": 0}

    def number(self, text: str) -> int:
        return self.number_of.setdefault(text, len(self.number_of))


def embed(views: Sequence[DialogueView], limit_bytes: int) -> Embedded:
    """All dialogues if they take at most `limit_bytes` when packed, else those of as many personas as do."""
    personas = sorted({view.persona for view in views})
    packed = _pack(views)
    if len(packed) <= limit_bytes:
        return Embedded(packed, len(views), len(views))
    fitting, too_many = 0, len(personas)
    kept, packed = _of_first(views, personas, 0)
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        tried, text = _of_first(views, personas, middle)
        if len(text) <= limit_bytes:
            fitting, kept, packed = middle, tried, text
        else:
            too_many = middle
    return Embedded(packed, kept, len(views))


def _of_first(views: Sequence[DialogueView], personas: Sequence[str], count: int) -> tuple[int, str]:
    """The number of dialogues of the first `count` personas, and they packed."""
    chosen = set(personas[:count])
    kept = [view for view in views if view.persona in chosen]
    return len(kept), _pack(kept)


def _pack(views: Sequence[DialogueView]) -> str:
    texts = _Texts()
    rows = [_encoded(view, texts) for view in sorted(views, key=lambda view: view.persona)]
    store = {
        "dialogue": [field.name for field in fields(DialogueView)],
        "turn": [field.name for field in fields(TurnView)],
        "evidence": [field.name for field in fields(EvidenceView)],
        "texts": list(texts.number_of),
        "dialogues": rows,
    }
    text = json.dumps(store, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def unpack(packed: str) -> dict[str, Any]:
    """The store that a page holds, as its script reads it."""
    store: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return store


def _encoded(value: Any, texts: _Texts) -> Any:
    """A view as the list of its fields: a text as its number, None as null, nested views as lists; emotions stay as they are."""
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, tuple):
        return [_encoded(item, texts) for item in value]
    if is_dataclass(value):
        return [_encoded(getattr(value, field.name), texts) for field in fields(value)]
    return texts.number(value)
