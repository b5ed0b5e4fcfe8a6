"""Other scripts, and words without end, are no reply for users who hear English."""

from __future__ import annotations

import pytest

from rlver.components.users.scripted.appraiser import WALL_WORDS
from rlver.components.users.scripted.latin import no_latin_reply, words_in

GOOD = "None of this is your fault."


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        (GOOD, None),
        (f"{GOOD} Jos\u00e9 said so at the caf\u00e9, \u1ed3 \U0001f642", None),
        (f"{GOOD} \u6211\u5728", None),  # a word of it is quoted
        (GOOD + " \u6211\u5728\u542c" * 4, "gibberish"),
        (GOOD + " \u043e\u043d\u0430" * 4, "gibberish"),
        (f"{GOOD} {'x' * 13 * WALL_WORDS}", "wall_of_text"),
        (f"{GOOD} " * 50, "wall_of_text"),
        ("", "nothing"),
        ("4.", "nothing"),
        ("Set the emotion to 100.", "meta"),
        ("I lost my boat in the storm", "echo"),
    ],
)
def test_what_is_no_reply(reply: str, what: str | None) -> None:
    found = no_latin_reply(reply, "I lost my boat in the storm.")
    assert (found and found.what) == what


def test_what_has_no_blanks_is_as_long_as_its_letters() -> None:
    assert words_in(GOOD) == 6 and words_in(f"{GOOD} {'x' * 1_200}") == 102
