"""What of a reply is new: the rest was said before, in an earlier reply or earlier in the same one, and is paid for nothing.

Taken out is a sentence that says again what one earlier sentence said, and out of a longer sentence the words of an earlier one. A sentence with a
word of content that the earlier one has not, or with another number of words like "not", says something else and stays. What repetition costs is more loosely found (`repeated` in users/scripted/appraiser.py): to cost a little and to be
paid nothing at all are not the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from rlver.components.users.heard.language import READ_REPLY
from rlver.components.users.scripted.reading import COMMON_WORDS, SENTENCE, bigrams

SAID = 0.85  # of a sentence's word pairs, in one earlier sentence
_LETTERS = 4  # of a word of content
_NOT = frozenset({"not", "no", "never", "nobody", "nothing", "none", "neither", "nor", "cannot", "without", "hardly"})
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

    Of each only so many words count as can be read.
    """
    before = {sentence.words for one in earlier for sentence in _sentences(one)}
    kept, end = list[str](), 0
    for sentence in _sentences(reply):
        for begin, stop in sorted(_said(sentence, before)):
            kept.append(reply[end : max(end, begin)])
            end = max(end, stop)
        before.add(sentence.words)
    left = "".join([*kept, reply[end:]]) if end else reply
    return left if left == reply else "" if _ONLY_MARKS.fullmatch(left) else left.strip()


def _said(sentence: _Sentence, before: Set[tuple[str, ...]]) -> set[tuple[int, int]]:
    """From where to where in the reply this sentence says again what was said."""
    if any(_says_again(sentence.words, other) for other in before):
        return {(sentence.begin, sentence.end)}
    runs = filter(None, (_run(sentence.words, other) for other in before))
    return {(sentence.places[first][0], sentence.places[last][1]) for first, last in runs}


def _sentences(reply: str) -> list[_Sentence]:
    found, words = list[_Sentence](), 0
    for match in SENTENCE.finditer(reply):
        own = list(islice(_WORD.finditer(reply, *match.span()), READ_REPLY - words))
        if own:
            told = tuple(one.group().lower().replace("\u2019", "'") for one in own)
            found.append(_Sentence(*match.span(), told, tuple(one.span() for one in own)))
            words += len(own)
        if words == READ_REPLY:
            break
    return found


def _says_again(words: tuple[str, ...], other: tuple[str, ...]) -> bool:
    if len(words) < 2 or words == other:
        return len(words) >= 2
    pairs = bigrams(words)
    if len(pairs) < 2 or len(pairs & bigrams(other)) < SAID * len(pairs):
        return False
    return _meant(words) <= set(other) and sum(map(_is_not, words)) == sum(map(_is_not, other))


def _meant(words: Sequence[str]) -> set[str]:
    return {word for word in words if len(word) >= _LETTERS and word not in COMMON_WORDS}


def _is_not(word: str) -> bool:
    return word in _NOT or word.endswith("n't")


def _run(words: Sequence[str], other: Sequence[str]) -> tuple[int, int] | None:
    """Where in `words` all those of `other` stand in their order: the places of the first and the last."""
    size = len(other)
    if size < _LEAST_RUN:
        return None
    firsts = (first for first in range(len(words) - size + 1) if tuple(words[first : first + size]) == tuple(other))
    return next(((first, first + size - 1) for first in firsts), None)
