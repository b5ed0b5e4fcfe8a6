"""What of a reply is new: the rest was said before, in an earlier reply or earlier in the same one, and is paid for nothing.

Taken out is a sentence that says again what one earlier sentence said, and out of a longer sentence the words of an earlier one. A sentence that
turns the meaning round ("it was *not* your fault") has other word pairs, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from rlver.components.users.heard.language import READ_REPLY
from rlver.components.users.scripted.reading import SENTENCE, bigrams

SAID = 0.85  # of a sentence's word pairs, in one earlier sentence
_LEAST_RUN = 4  # words of an earlier sentence that are known again within another one
_WORD = re.compile(r"[A-Za-z0-9]+(?:['\u2019][A-Za-z]+)?")
_ONLY_MARKS = re.compile(r"[\W_]*")


class _Sentence(NamedTuple):
    begin: int  # in the reply
    end: int
    words: tuple[str, ...]
    places: tuple[tuple[int, int], ...]  # of the words, in the reply


@lru_cache(maxsize=1 << 12)
def new_in(reply: str, earlier: tuple[str, ...]) -> str:
    """`reply` without what was said in `earlier` replies or earlier in itself: to the letter where nothing was, "" where all was.

    Of each only so many sentences count as can be read.
    """
    before = [sentence.words for one in earlier for sentence in _sentences(one)]
    taken_out: list[tuple[int, int]] = []
    for sentence in _sentences(reply):
        if any(_says_again(sentence.words, other) for other in before):
            taken_out.append((sentence.begin, sentence.end))
        else:
            runs = (_run(sentence.words, other) for other in before)
            taken_out += [(sentence.places[first][0], sentence.places[last][1]) for first, last in filter(None, runs)]
        before.append(sentence.words)
    if not taken_out:
        return reply
    left = "".join(character for place, character in enumerate(reply) if not any(begin <= place < end for begin, end in taken_out))
    return "" if _ONLY_MARKS.fullmatch(left) else left.strip()


def _sentences(reply: str) -> list[_Sentence]:
    found = (match for match in SENTENCE.finditer(reply) if _WORD.search(match.group()))
    return [_sentence(reply, *match.span()) for match in islice(found, READ_REPLY)]


def _sentence(reply: str, begin: int, end: int) -> _Sentence:
    words = list(islice(_WORD.finditer(reply, begin, end), READ_REPLY))
    return _Sentence(begin, end, tuple(one.group().lower().replace("\u2019", "'") for one in words), tuple(one.span() for one in words))


def _says_again(words: tuple[str, ...], other: tuple[str, ...]) -> bool:
    pairs = bigrams(words)
    return len(words) >= 2 and (words == other or (len(pairs) >= 2 and len(pairs & bigrams(other)) >= SAID * len(pairs)))


def _run(words: Sequence[str], other: Sequence[str]) -> tuple[int, int] | None:
    """Where in `words` all those of `other` stand in their order: the places of the first and the last."""
    size = len(other)
    if size < _LEAST_RUN:
        return None
    firsts = (first for first in range(len(words) - size + 1) if tuple(words[first : first + size]) == tuple(other))
    return next(((first, first + size - 1) for first in firsts), None)
