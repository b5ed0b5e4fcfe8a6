"""Which acts are read in a reply: in the phrase book of the warm start, in natural English, and not where there are none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rlver.components.policy.tiny.supporters import phrases
from rlver.components.users.scripted.patterns import GENERIC, SERVING
from rlver.components.users.scripted.reading import HARMFUL, META, Reading, read_reply

FILLED = {
    "word": "boiler", "role": "sister", "deed": "you stayed patient about the loan", "step": "call the card company about the bill",
    "motive": "he felt ashamed of it", "own_part": "you never agreed a date", "hurt": "coming second to a drum kit",
}  # fmt: skip
ACTS = (*SERVING, *GENERIC, *HARMFUL)


def acts_in(reply: str) -> set[str]:
    return {act for sentence in read_reply(reply).sentences for act, _ in sentence.acts}


# --- the phrase book


@pytest.mark.parametrize("act", ACTS)
def test_every_head_of_the_phrase_book_performs_its_act(act: str) -> None:
    heads = phrases()["openings" if act == "acknowledge" else act]
    heads = heads if act == "acknowledge" else heads["heads"]
    assert len(heads) >= 6
    for head in heads:
        sentence = head.format(**FILLED).rstrip(".") + ("?" if act == "ask_fact" else ".")
        assert act in acts_in(sentence), sentence


@pytest.mark.parametrize("act", SERVING)
def test_no_tail_turns_a_phrase_into_another_serving_act(act: str) -> None:
    for head in phrases()[act]["heads"]:
        for tail in phrases()[act]["tails"]:
            sentence = (head + tail).format(**FILLED)
            sentence += "" if sentence.endswith("?") else "."
            found = acts_in(sentence)
            assert act in found, sentence
            assert not found & set(HARMFUL), sentence
            if "makes it look so" not in tail:  # "did nothing wrong, even if …" also praises
                assert not found & (set(SERVING) - {act}), sentence


# --- natural English


def _table(name: str) -> list[dict[str, Any]]:
    loaded = YAML(typ="safe").load(Path(__file__).with_name("natural_replies.yaml").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = loaded[name]
    return rows


def _precision_and_recall(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float, int]]:
    """Per act, and over "all": the share of found acts that are labelled, the share of labelled acts that are found, how many are labelled."""
    right, found, labelled = Counter[str](), Counter[str](), Counter[str]()
    for row in rows:
        seen, wanted = acts_in(row["reply"]), set(row["acts"])
        right.update(seen & wanted), found.update(seen), labelled.update(wanted)
    for counts in (right, found, labelled):
        counts["all"] = counts.total()
    return {act: (right[act] / max(1, found[act]), right[act] / max(1, labelled[act]), labelled[act]) for act in labelled}


def test_the_table_covers_every_act_and_is_not_the_phrase_book() -> None:
    rows = _table("tuning") + _table("held_out")
    assert len(rows) >= 280
    counts = Counter(act for row in rows for act in row["acts"])
    assert set(counts) == set(ACTS)
    assert min(counts[act] for act in SERVING) >= 20
    said = "\n".join(row["reply"] for row in rows)
    long_heads = [head for act in SERVING for head in phrases()[act]["heads"] if len(head.split()) >= 6]
    assert long_heads and not [head for head in long_heads if head in said]


def test_natural_replies_are_read_as_a_person_reads_them() -> None:
    measured = _precision_and_recall(_table("tuning"))
    poor = {act: figures for act, figures in measured.items() if figures[0] < 0.75 or figures[1] < 0.75}
    assert not poor
    assert measured["all"][0] >= 0.95 and measured["all"][1] >= 0.95


def test_what_is_found_in_replies_nobody_tuned_for_is_mostly_right() -> None:
    precision, recall, labelled = _precision_and_recall(_table("held_out"))["all"]
    assert labelled >= 36
    assert precision >= 0.8 and recall >= 0.55  # .85 and .61 when measured; see the head of natural_replies.yaml


@pytest.mark.parametrize("row", _table("tuning") + _table("held_out"), ids=lambda row: row["reply"][:40])
def test_natural_replies_are_english_and_no_talk_to_the_machinery(row: dict[str, Any]) -> None:
    reading = read_reply(row["reply"])
    assert reading.is_english and not reading.meta


# --- what performs nothing


@pytest.mark.parametrize(
    "text",
    [
        "fault", "fault, blame, guilt, sorry", "courage strength admire praise", "sides perspective balance", "hurt pain grief underneath",
        "listen share tell", "advice step option plan", "", "...", "Hm.",
    ],
)  # fmt: skip
def test_bare_keywords_perform_nothing(text: str) -> None:
    assert acts_in(text) == set()


def test_a_list_without_function_words_is_no_sentence() -> None:
    assert acts_in("tell me more courage boiler sister admire patience strength sorrow grief kitchen window ladder garden") == set()


# --- readings that must not be confused


@pytest.mark.parametrize(
    ("text", "acts"),
    [
        ("It was your own fault.", {"blame"}),
        ("It was not your fault.", {"absolve"}),
        ("It wasn’t your fault.", {"absolve"}),  # curly apostrophe
        ("You feel as if it was your fault.", set()),  # reports a reproach, makes none
        ("Frankly, I think it was your fault.", {"blame"}),
        ("You're not overreacting.", {"acknowledge"}),
        ("You're overreacting.", {"dismiss"}),
        ("It isn't that bad.", {"dismiss"}),
        ("You could have told her.", set()),
        ("You could tell her on Friday.", {"advise"}),
        ("When did she leave?", {"ask_fact"}),
        ("What did you learn from it?", {"invite_reflection"}),
        ("What happened then?", {"invite_telling"}),
        ("Your feelings may be hurt.", set()),
        ("Your sister may be hurt.", {"explain_other"}),
        ("They may be able to help.", set()),
        ("Call the bank and ask for a plan.", {"advise"}),
        ("Calling the bank and asking was hard.", set()),
        ("You are amazing.", {"flattery"}),
        ("You are amazing, and it took courage to say it.", {"praise"}),
    ],
)  # fmt: skip
def test_near_misses_are_kept_apart(text: str, acts: set[str]) -> None:
    assert acts_in(text) == acts


def test_an_act_is_reported_with_its_words_as_they_were_written() -> None:
    (sentence,) = read_reply("Honestly, It Was NOT Your Fault at all").sentences
    assert sentence.acts == (("absolve", "Was NOT Your Fault"),)


def test_sentences_words_and_content() -> None:
    reading = read_reply("“That sounds hard” — tell me more; did the kitchens burn?\nYes!")
    assert [sentence.text for sentence in reading.sentences] == ['"That sounds hard" ,  tell me more;', "did the kitchens burn?", "Yes!"]
    assert reading.word_count == 11
    assert reading.content == {"sound", "kitchen", "burn"}
    assert read_reply("").content == frozenset()


@pytest.mark.parametrize("text", ["这不是你的错", "zzz qqq xxx vvv", "12 34 56", "🙂🙂"])
def test_other_scripts_and_noise_are_not_english(text: str) -> None:
    assert not read_reply(text).is_english


def test_a_reading_is_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(read_reply("Go on."), Reading) and read_reply("Go on.") == read_reply("Go on.")
    with pytest.raises(AttributeError):
        read_reply("Go on.").word_count = 3  # type: ignore[misc]


def test_acts_are_looked_for_at_the_beginning_of_an_endless_sentence_only() -> None:
    padding = "and then we went on and on " * 30
    assert acts_in(f"It was not your fault {padding}") == {"absolve"}
    assert "absolve" not in acts_in(f"{padding} and it was not your fault")


# --- the shape of the patterns


def test_patterns_begin_at_a_word_or_at_the_sentence() -> None:
    """Anything else is tried at every character and makes reading several times slower."""
    for table in (SERVING, GENERIC, HARMFUL):
        for act, alternatives in table.items():
            for one in alternatives:
                assert one.startswith((r"\b", "^")), (act, one)
                assert not ("|^" in one.replace("(?:^|", "") and one.startswith(r"\b")), (act, one)
    assert not set(SERVING) & set(GENERIC) and not set(SERVING) & set(HARMFUL) and META
