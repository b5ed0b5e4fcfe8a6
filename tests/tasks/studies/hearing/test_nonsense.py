"""Nonsense that is made for fitting."""

from __future__ import annotations

from collections import Counter

from heard_by_hand import every_label

from rlver.tasks.studies.hearing.drawn import LEAST_WORDS, SHARE, made

ROWS = [row for row in every_label() if row.is_for_fitting][:1500]


def test_it_has_the_words_of_replies_and_no_act() -> None:
    mixed = made(ROWS, 1)
    assert len(mixed) == round(SHARE * len(ROWS))
    known = {word for row in ROWS for word in row.reply.lower().split()}
    said = [word for row in mixed for word in row.reply.lower().split()]
    assert sum(word in known for word in said) > 0.9 * len(said)
    assert all((row.acts, row.value, row.quality, row.trap) == (frozenset(), -1, frozenset(), "nonsense") for row in mixed)
    assert not {row.reply for row in mixed} & {row.reply for row in ROWS}


def test_it_answers_the_same_messages_at_much_the_same_length() -> None:
    messages = Counter(row.user for row in ROWS)
    lengths = [len(row.reply.split()) for row in made(ROWS, 1)]
    assert all(row.user in messages for row in made(ROWS, 1))
    assert min(lengths) >= LEAST_WORDS // 2 and max(lengths) < 80


def test_the_seed_decides_it() -> None:
    assert made(ROWS, 1) == made(ROWS, 1) != made(ROWS, 2)
