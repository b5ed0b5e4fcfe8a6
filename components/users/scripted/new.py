"""What of a reply is new: the rest was said before, in an earlier reply or earlier in the same one, and is paid for nothing.

Taken out is a sentence that says again what one earlier sentence said or a part of it, and out of a longer sentence the words of an earlier one, or
of what stood between two marks of it.
Words that add nothing (`really`) hide no repetition. A sentence with a word of content that the earlier one has not, with another number of words
like "not", or which takes the earlier one back, says something else and stays. What repetition costs is more loosely found (`repeated` in
users/scripted/appraiser.py): to cost a little and to be paid nothing at all are not the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

from rlver.components.users.scripted.reading import COMMON_WORDS, SENTENCE, bigrams

READ_WORDS = 128  # of a reply; what comes after is not looked at
SAID = 0.85  # of a sentence's word pairs, in one earlier sentence
_LETTERS = 3  # of a word of content, or more
_NOT = frozenset({"not", "no", "never", "nobody", "nothing", "none", "neither", "nor", "cannot", "without", "hardly"})
_TAKES_BACK = frozenset({"wrong", "sorry", "unfair", "mistaken"})
_FILLERS = """absolutely actually certainly clearly completely definitely honestly just obviously oh quite really simply so surely totally truly very"""
_ADDS_NOTHING = frozenset(_FILLERS.split())
_LEAST_RUN = 4  # words of one sentence that are known again within another one
_UNSEEN = "\u00ad\u200b-\u200f\u2060-\u2064\ufeff"  # characters that show nothing
_WORD = re.compile(rf"[A-Za-z0-9{_UNSEEN}]+(?:['\u2018\u2019][A-Za-z{_UNSEEN}]+)?")
_HIDES = re.compile(f"[{_UNSEEN}]")
_MARK = re.compile(rf"[^\w\s'\u2018\u2019{_UNSEEN}]")
_ONLY_MARKS = re.compile(r"[\W_]*")
_PLAIN = str.maketrans({"\u2018": "'", "\u2019": "'"})


class _Sentence(NamedTuple):
    """Its words, without those that add nothing; and of each the first word since a mark (a comma, say)."""

    words: tuple[str, ...]
    clauses: tuple[int, ...]

    def parts(self) -> Iterator[_Sentence]:
        """The sentence, and what stands between marks in it, where that is long enough to be known again."""
        yield self
        starts = sorted({*self.clauses, len(self.words)})
        for begin, end in pairwise(starts) if len(starts) > 2 else ():
            if end - begin >= _LEAST_RUN:
                yield _Sentence(self.words[begin:end], (0,) * (end - begin))

    def places(self, words: tuple[str, ...]) -> Iterator[int]:
        """Where `words` begin in it, in their order and with nothing between them, and are not taken back."""
        size = len(words)
        for first in range(len(self.words) - size + 1) if size >= _LEAST_RUN else ():
            frame = self.words[self.clauses[first] : first]
            taken_back = any(_is_not(word) or word in _TAKES_BACK for word in frame) and not any(map(_is_not, words))
            if self.words[first : first + size] == words and not taken_back:
                yield first


class _Placed(NamedTuple):
    sentence: _Sentence
    whole: tuple[int, int]  # where it stands in the reply
    each: tuple[tuple[int, int], ...]  # where its words do


@lru_cache(maxsize=1 << 12)
def new_in(reply: str, earlier: tuple[str, ...]) -> str:
    """`reply` without what was said in `earlier` replies or earlier in itself: to the letter where nothing was, "" where all was.

    Of each the first READ_WORDS words count.
    """
    before = {said for one in earlier for placed in _sentences(one) for said in placed.sentence.parts()}
    kept, end = list[str](), 0
    for placed in _sentences(reply):
        for begin, stop in sorted(_said(placed, before)):
            kept.append(reply[end : max(end, begin)])
            end = max(end, stop)
        before.update(placed.sentence.parts())
    left = "".join([*kept, reply[end:]]) if end else reply
    return left if left == reply else "" if _ONLY_MARKS.fullmatch(left) else left.strip()


def _said(placed: _Placed, before: Set[_Sentence]) -> set[tuple[int, int]]:
    """From where to where in the reply this sentence says again what was said."""
    if any(_says_again(placed.sentence.words, other) for other in before):
        return {placed.whole}
    runs = ((first, first + len(other.words) - 1) for other in before for first in placed.sentence.places(other.words))
    return {(placed.each[first][0], placed.each[last][1]) for first, last in runs}


def _sentences(reply: str) -> list[_Placed]:
    found, words = list[_Placed](), 0
    for match in SENTENCE.finditer(reply):
        own = [
            (told, *one.span())
            for one in islice(_WORD.finditer(reply, *match.span()), READ_WORDS - words)
            if (told := _HIDES.sub("", one.group()).lower().translate(_PLAIN))
        ]
        words += len(own)
        if own := [one for one in own if one[0] not in _ADDS_NOTHING]:
            clauses = [0]
            for number, ((_, _, end), (_, begin, _)) in enumerate(pairwise(own), start=1):
                clauses.append(number if _MARK.search(reply, end, begin) else clauses[-1])
            sentence = _Sentence(tuple(told for told, _, _ in own), tuple(clauses))
            found.append(_Placed(sentence, match.span(), tuple((begin, end) for _, begin, end in own)))
    return found


def _says_again(words: tuple[str, ...], other: _Sentence) -> bool:
    if words == other.words:
        return True
    if any(True for _ in other.places(words)):
        return True
    pairs = bigrams(words)
    if len(pairs) < 2 or len(pairs & bigrams(other.words)) < SAID * len(pairs):
        return False
    return _meant(words) <= set(other.words) and sum(map(_is_not, words)) == sum(map(_is_not, other.words))


def _meant(words: Sequence[str]) -> set[str]:
    return {word for word in words if len(word) >= _LETTERS and word not in COMMON_WORDS}


def _is_not(word: str) -> bool:
    return word in _NOT or word.endswith("n't")
