"""What is no reply for users who do not overlook other scripts, and words without end, as the scripted user does (docs/act-detector.md)."""

from __future__ import annotations

from rlver.components.domain.transcript import Evidence
from rlver.components.users.scripted.appraiser import ECHO, WALL_WORDS, not_a_reply
from rlver.components.users.scripted.reading import read_reply

LATIN = 0.8  # of the letters of a reply in English, or more
_LETTERS_A_WORD = 12  # blanks included; English has six


def no_latin_reply(reply: str, user: str, echo: float = ECHO) -> Evidence | None:
    """As not_a_reply, whose three ways of being none it extends: the one reason that settles it."""
    letters = [one for one in reply if one.isalpha()]
    if sum(map(_is_latin, letters)) < LATIN * len(letters):
        return Evidence(step="content", what="gibberish", points=-8)
    if words_in(reply) > WALL_WORDS:
        return Evidence(step="content", what="wall_of_text", points=-8)
    return not_a_reply(read_reply(reply), user, echo)


def words_in(reply: str) -> int:
    """How many words it has, or has the length of."""
    return max(read_reply(reply).word_count, len(reply) // _LETTERS_A_WORD)


def _is_latin(letter: str) -> bool:
    return letter < "\u0250" or "\u1e00" <= letter < "\u1f00"
