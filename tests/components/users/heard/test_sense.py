"""The second reading of sense: what it sees of a reply, how it is mixed with the nets, and that it learns what it is fitted to. No language model is read."""

from __future__ import annotations

import pytest
import torch

from rlver.components.labels.labelled import Labelled
from rlver.components.users.heard.sense import OVERLAPS, Sense, overlaps
from rlver.tasks.studies.hearing.sense import fit_sense, with_overlaps, written

USER = "I wrote every invitation by hand over nine evenings."
KEEPS = "You wrote every invitation by hand. That took care."
MIXES_UP = "Every evening by nine hand wrote you over."
IN_MESSAGE, NEW, NEW_WORDS, PAIRS, IN_ORDER, OUT_OF_ORDER, TRIPLES, RUN, LONGEST, ASKS = range(OVERLAPS)


def test_what_keeps_to_the_users_words_is_told_from_what_mixes_them_up() -> None:
    keeps, mixes = overlaps(KEEPS, USER, "").tolist(), overlaps(MIXES_UP, USER, "").tolist()
    assert keeps[LONGEST] == 6 and mixes[LONGEST] == 1, "you wrote every invitation by hand"
    assert keeps[PAIRS] > mixes[PAIRS] == 0 and keeps[OUT_OF_ORDER] < mixes[OUT_OF_ORDER]
    assert keeps[IN_ORDER] == 1 and keeps[TRIPLES] > mixes[TRIPLES] == 0 and keeps[RUN] > mixes[RUN]


def test_what_was_said_earlier_is_known_but_stands_not_in_the_message() -> None:
    reply = "Your cousin liked the invitation?"
    assert overlaps(reply, USER, "")[NEW_WORDS] == overlaps(reply, USER, "My cousin came.")[NEW_WORDS] + 1
    assert overlaps(reply, USER, "My cousin came.")[IN_MESSAGE] == overlaps(reply, USER, "")[IN_MESSAGE]
    assert overlaps(reply, USER, "")[ASKS] == 1 and overlaps(reply, USER, "")[NEW] > 0


@pytest.mark.parametrize("reply", ["", "?", "12 !"])
def test_no_text_breaks_it(reply: str) -> None:
    assert overlaps(reply, "", "").shape == (OVERLAPS,) and not overlaps(reply, USER, "").isnan().any()


@pytest.mark.parametrize(("gate", "expected"), [(-30.0, 0.9), (30.0, 0.5), (0.0, 0.7)])
def test_the_two_readings_are_mixed_by_how_far_a_reply_is_of_the_kind(gate: float, expected: float) -> None:
    sense = Sense(
        {
            "sense.mean": torch.zeros(3),
            "sense.scale": torch.ones(3),
            "sense.weight": torch.zeros(2, 3),
            "sense.bias": torch.tensor([gate, 0.0]),
        }
    )
    assert sense.coherent(torch.ones(3), 0.9) == pytest.approx(expected)


def test_it_learns_the_kind_and_what_makes_sense_of_it() -> None:
    def row(reply: str, quality: str) -> Labelled:
        return Labelled("small", "a", USER, "", reply, frozenset(), 0, frozenset({quality}), None)

    strict = [row(KEEPS, "coherent"), row(MIXES_UP, "specific")] * 20
    of_kind, of_others = torch.ones(40, 4), -torch.ones(40, 4)
    plain = strict[:1] * 5
    sense = Sense(fit_sense(with_overlaps(of_kind, strict), strict, with_overlaps(of_kind[:5], plain), with_overlaps(of_others, strict)))
    good, bad = (sense.coherent(with_overlaps(of_kind[:1], [one])[0], 0.9) for one in strict[:2])
    assert good > 0.7 and bad < 0.3
    assert sense.coherent(with_overlaps(of_others[:1], [strict[1]])[0], 0.9) > 0.8, "of another kind: the nets have the word"


def test_what_was_written_is_coherent_and_comes_in_the_same_order() -> None:
    rows = written()
    assert len(rows) > 1000 and all("coherent" in row.quality for row in rows) and rows == written()
