"""All dialogues inside the page, packed: JSON in which every text stands once and is referred to by its number, gzipped, as base64.

The index says what there is and is read when the page opens. What was said lies in chunks of some personas each, and a chunk is read when
one of its dialogues is shown, all of them at the first search: so the page opens as fast with thousands of dialogues as with a few. What
does not fit is left out by persona, the same personas for every variant, so that what is shown can still be compared. Base64 has no
character that means anything to HTML, so no text of a model can leave its element.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from components.evaluation.report.views import DialogueView, EvidenceView, TurnView

_CHUNK_DIALOGUES = 50
_INDEX_FIELDS = tuple(field.name for field in fields(DialogueView) if field.name != "turns")


@dataclass(frozen=True)
class Embedded:
    """`index` and `chunks` are packed. `shown` of `total` dialogues fitted."""

    index: str
    chunks: tuple[str, ...]
    shown: int
    total: int


class _Texts:
    """Texts in order of first use."""

    def __init__(self) -> None:
        self.number_of: dict[str, int] = {"": 0}

    def number(self, text: str) -> int:
        return self.number_of.setdefault(text, len(self.number_of))


def embed(views: Sequence[DialogueView], limit_bytes: int) -> Embedded:
    """Chunk by chunk until the next one would pass `limit_bytes`, as packed; the small index is not counted."""
    chunks: list[str] = []
    kept: list[list[DialogueView]] = []
    for chunk in _chunks(views):
        packed = _pack_turns(chunk)
        if sum(map(len, chunks)) + len(packed) > limit_bytes:
            break
        chunks.append(packed)
        kept.append(chunk)
    return Embedded(_pack_index(kept), tuple(chunks), sum(map(len, kept)), len(views))


def _chunks(views: Sequence[DialogueView]) -> Iterator[list[DialogueView]]:
    """Dialogues by persona, whole personas together, at least _CHUNK_DIALOGUES a chunk but for the last."""
    chunk: list[DialogueView] = []
    for _, of_persona in groupby(sorted(views, key=attrgetter("persona")), key=attrgetter("persona")):
        chunk += of_persona
        if len(chunk) >= _CHUNK_DIALOGUES:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _pack_index(chunks: Sequence[Sequence[DialogueView]]) -> str:
    """Everything but the turns, and how many dialogues each chunk has."""
    texts = _Texts()
    rows = [[_encoded(getattr(view, name), texts) for name in _INDEX_FIELDS] for chunk in chunks for view in chunk]
    return _packed(
        {
            "dialogue": _INDEX_FIELDS,
            "turn": [field.name for field in fields(TurnView)],
            "evidence": [field.name for field in fields(EvidenceView)],
            "texts": list(texts.number_of),
            "dialogues": rows,
            "chunks": [len(chunk) for chunk in chunks],
        }
    )


def _pack_turns(chunk: Sequence[DialogueView]) -> str:
    texts = _Texts()
    turns = [_encoded(view.turns, texts) for view in chunk]
    return _packed({"texts": list(texts.number_of), "turns": turns})


def _packed(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def unpack(packed: str) -> dict[str, Any]:
    """What was packed, as the page's script reads it."""
    value: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return value


def _encoded(value: Any, texts: _Texts) -> Any:
    """A view as the list of its fields: a text as its number, None as null, nested views as lists; emotions stay as they are."""
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, tuple):
        return [_encoded(item, texts) for item in value]
    if is_dataclass(value):
        return [_encoded(getattr(value, field.name), texts) for field in fields(value)]
    return texts.number(value)
