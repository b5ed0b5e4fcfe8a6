"""What stands beside the states when a reply is read: how far it keeps to the user's words. No language model is read."""

from __future__ import annotations

import pytest

from rlver.components.users.heard.circumstances import CIRCUMSTANCES, circumstances, overlaps

USER = "I wrote every invitation by hand over nine evenings."
KEEPS = "You wrote every invitation by hand. That took care."
MIXES_UP = "Every evening by nine hand wrote you over."
IN_MESSAGE, NEW, NEW_WORDS, PAIRS, IN_ORDER, OUT_OF_ORDER, TRIPLES, RUN, LONGEST, ASKS = range(10)


def test_what_keeps_to_the_users_words_is_told_from_what_mixes_them_up() -> None:
    keeps, mixes = overlaps(KEEPS, USER, ""), overlaps(MIXES_UP, USER, "")
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
    assert circumstances(reply, "", "").shape == (CIRCUMSTANCES,) and circumstances(reply, USER, "").isfinite().all()
