"""All dialogues packed inside the page."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

from report_run import make_dialogues

from rlver.components.report.dialogues import DialogueView, Embedded, dialogue_view, embed, unpack


def make_views(personas: int, variants: tuple[str, ...] = ("base", "tuned")) -> list[DialogueView]:
    return [dialogue_view(variant, d) for variant in variants for d in make_dialogues(variant, personas, 0.5, 1)]


def read_back(embedded: Embedded) -> list[dict[str, Any]]:
    """Every dialogue as its fields, as the page's script reads them."""
    index = unpack(embedded.index)
    chunks = [unpack(chunk) for chunk in embedded.chunks]
    said = [(chunk["texts"], turns) for chunk in chunks for turns in chunk["turns"]]
    assert index["chunks"] == [len(chunk["turns"]) for chunk in chunks]
    found = []
    for row, (texts, turns) in zip(index["dialogues"], said, strict=True):
        fields = dict(zip(index["dialogue"], row, strict=True))
        known = {name: index["texts"][value] if isinstance(value, int) else value for name, value in fields.items()}
        found.append({**known, "turns": [_named(index, "turn", texts, turn) for turn in turns]})
    return found


def _named(index: dict[str, Any], kind: str, texts: list[str], values: list[Any]) -> dict[str, Any]:
    return {
        name: [_named(index, "evidence", texts, one) for one in value] if name == "evidence" else None if value is None else texts[value]
        for name, value in zip(index[kind], values, strict=True)
    }


def test_what_stands_in_the_page_means_nothing_to_html():
    embedded = embed(make_views(2), 10**9)
    for packed in (embedded.index, *embedded.chunks):
        assert re.fullmatch(r"[A-Za-z0-9+/=]+", packed)


def test_every_word_of_every_dialogue_can_be_read_back():
    views = make_views(60)
    embedded = embed(views, limit_bytes=10**9)
    assert (embedded.shown, embedded.total, len(embedded.chunks)) == (120, 120, 3)  # 50, 50 and the last 20
    for found, view in zip(read_back(embedded), sorted(views, key=lambda view: view.persona), strict=True):
        assert found == {**json.loads(json.dumps(asdict(view)))}


def test_each_text_is_stored_once_in_its_chunk():
    (chunk,) = embed(make_views(10), 10**9).chunks
    texts = unpack(chunk)["texts"]
    assert len(texts) == len(set(texts))


def test_what_does_not_fit_is_left_out_by_persona_for_all_variants_alike():
    views = make_views(120)
    whole = embed(views, 10**9)
    limit = sum(map(len, whole.chunks[:2])) + 10
    part = embed(views, limit)
    assert (part.shown, part.total) == (100, 240) and part.chunks == whole.chunks[:2]
    assert [one["persona"] for one in read_back(part)] == sorted(2 * [f"p{number:03d}" for number in range(50)])
    assert part.opened == {(view.variant, view.dialogue_id) for view in views if view.persona < "p050"}


def test_a_limit_that_holds_nothing_gives_an_empty_store():
    embedded = embed(make_views(2), 10)
    assert (embedded.shown, embedded.chunks, unpack(embedded.index)["dialogues"]) == (0, (), [])
