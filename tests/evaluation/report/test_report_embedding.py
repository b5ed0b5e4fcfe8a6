"""All dialogues packed inside the page."""

from __future__ import annotations

import re

from report_run import make_dialogues

from components.evaluation.report.embedding import embed, unpack
from components.evaluation.report.views import DialogueView, dialogue_view


def make_views(personas: int, variants: tuple[str, ...] = ("base", "tuned")) -> list[DialogueView]:
    return [dialogue_view(variant, d) for variant in variants for d in make_dialogues(variant, personas, 0.5, 1)]


def test_what_stands_in_the_page_means_nothing_to_html():
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", embed(make_views(2), 10**9).packed)


def test_every_text_of_every_dialogue_can_be_read_back():
    views = make_views(6)
    embedded = embed(views, limit_bytes=10**9)
    store = unpack(embedded.packed)
    assert (embedded.shown, embedded.total) == (12, 12)
    in_order = sorted(views, key=lambda view: view.persona)
    for row, view in zip(store["dialogues"], in_order, strict=True):
        values = dict(zip(store["dialogue"], row, strict=True))
        assert store["texts"][values["persona"]] == view.persona
        assert values["failure"] is None
        assert tuple(values["emotions"]) == view.emotions
        for turn_row, turn in zip(values["turns"], view.turns, strict=True):
            said = dict(zip(store["turn"], turn_row, strict=True))
            assert store["texts"][said["reply"]] == turn.reply
            reasons = [dict(zip(store["evidence"], reason, strict=True)) for reason in said["evidence"]]
            assert [store["texts"][reason["what"]] for reason in reasons] == [reason.what for reason in turn.evidence]


def test_each_text_is_stored_once():
    texts = unpack(embed(make_views(10), 10**9).packed)["texts"]
    assert len(texts) == len(set(texts))


def test_what_does_not_fit_is_left_out_by_persona_for_all_variants_alike():
    views = make_views(12)
    whole = embed(views, 10**9)
    part = embed(views, len(whole.packed) // 2)
    store = unpack(part.packed)
    shown = [store["texts"][row[store["dialogue"].index("persona")]] for row in store["dialogues"]]
    assert 0 < part.shown < part.total == 24
    assert part.shown % 2 == 0 and shown == sorted(2 * [f"p{number:03d}" for number in range(part.shown // 2)])
    assert len(part.packed) <= len(whole.packed) // 2
    more = [view for view in views if view.persona <= f"p{part.shown // 2:03d}"]
    assert len(embed(more, 10**9).packed) > len(whole.packed) // 2  # one persona more would not have fitted


def test_a_limit_that_holds_nothing_gives_an_empty_store():
    embedded = embed(make_views(2), 10)
    assert embedded.shown == 0
    assert unpack(embedded.packed)["dialogues"] == []
