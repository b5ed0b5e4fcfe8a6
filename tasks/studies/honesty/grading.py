"""Grading by rule: is one of the right answers said, one of the wrong ones, both or neither?

Words decide, not meaning. "Not six but eight" holds both and is unclear; "not six" alone counts as six. Only whole words count: `eight` is not in
"eighteen", `3` not in "3.5". Answers and what they are compared with are normalised in the same way: case, accents, apostrophes and punctuation
go, and every number, in words or digits, becomes one word: "two hundred and six" is 206, "1.5 million" 1500000. The grammar of numbers, from the
largest to the smallest; a hyphen joins like a space, other punctuation parts, and `and` stands before a number below a hundred only:

    number    (group scale)+ and? group      two thousand five hundred;  group alone
    group     below? hundred (and? below)?   a hundred and six;  year (nineteen forty-five);  below
    below     tens unit;  a spelled number below a hundred;  digits
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum

_HYPHEN = "-"


class Grade(StrEnum):
    """Unclear is neither right nor wrong, and is counted by itself."""

    CORRECT = "correct"
    ERROR = "error"
    UNCLEAR = "unclear"


def grade(answer: str, right: Sequence[str], wrong: Sequence[str]) -> Grade:
    """What an answer is by the words it holds. Of two matches one inside the other, the longer alone counts: in "upper arm bone" there is no "arm"."""
    said = words(answer)
    rights, wrongs = ([span for one in side for span in _found(words(one), said)] for side in (right, wrong))
    is_right, is_wrong = _by_itself(rights, wrongs), _by_itself(wrongs, rights)
    if is_right == is_wrong:
        return Grade.UNCLEAR
    return Grade.CORRECT if is_right else Grade.ERROR


_Span = tuple[int, int]


def _found(wanted: Sequence[str], said: Sequence[str]) -> list[_Span]:
    length = len(wanted)
    return [(start, start + length) for start in range(len(said) - length + 1) if length and said[start : start + length] == wanted]


def _by_itself(spans: Sequence[_Span], others: Sequence[_Span]) -> bool:
    """Whether one of the spans lies in no longer one of the others. The others are looked up, so the time is that of the text's length."""
    known, lengths = set(others), {high - low for low, high in others}

    def inside(low: int, high: int) -> bool:
        longer = (length for length in lengths if length > high - low)
        return any((start, start + length) in known for length in longer for start in range(high - length, low + 1))

    return any(not inside(low, high) for low, high in spans)


_REPLACED = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        ("[\u2018\u2019\u02bc`\u00b4]", "'"),
        ("[\u2010-\u2015\u2212]", _HYPHEN),
        (r"(?<=\d)(?=[\u00bc-\u00be\u2150-\u215e])", " "),  # 2½ is two words
        (r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))", ""),  # 1 000 with a space that does not break
        (r"(?<![\w.])\.(?=\d)", "0."),  # .25
    )
)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,]*\d)")
_ABBREVIATION = re.compile(r"\b(?:[^\W\d_]\.){2,}")
_WORD = re.compile(r"\d+/\d+|\d+(?:\.\d+)?(?:(?:st|nd|rd|th)\b)?|[^\W\d_]\w*|[^\w\s]|_")


def words(text: str) -> list[str]:
    """The words of a text, normalised: "It's FIFTY-SIX, or 1,000.50!" is it, 56, or, 1000.5."""
    for pattern, instead in _REPLACED:
        text = pattern.sub(instead, text)
    plain = unicodedata.normalize("NFKD", text).casefold().replace("\u2044", "/")
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    plain = re.sub(r"(?<=\w)'s\b", "", plain).replace("'", "")
    plain = _ABBREVIATION.sub(lambda found: found.group().replace(".", "") + " ", plain)
    plain = _THOUSANDS.sub(lambda found: found.group().replace(",", ""), plain)
    return [word for word in _with_numbers(_WORD.findall(plain)) if word[0].isalnum()]


_BELOW_TWENTY = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen",
    "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_UNITS = {name: value for value, name in enumerate(_BELOW_TWENTY)}
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_SPELLED = {**_UNITS, **_TENS}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_DIGITS = re.compile(r"\d+(?:\.\d+)?")

_Part = tuple[Decimal, int]  # a number, and the place after it


def _with_numbers(words: Sequence[str]) -> list[str]:
    """The words, with one word of digits in the place of each number. Zeros that say nothing go: 3.50 is 3.5, and 100.0 is 100."""
    done: list[str] = []
    place = 0
    while place < len(words):
        if (found := _number(words, place)) is None:
            done.append(words[place])
            place += 1
        else:
            number, place = found
            done.append(_written(number))
    return done


def _number(words: Sequence[str], place: int) -> _Part | None:
    total, begun = Decimal(0), False
    while (group := _group(words, place)) or (not begun and _is(words, place, _SCALES)):
        value, after = group or (Decimal(1), place)  # "thousand" alone is a thousand
        scale = _past_hyphen(words, after)
        if _is(words, scale, _SCALES):
            total, place, begun = total + value * _SCALES[words[scale]], scale + 1, True
        else:
            return (total + value, after) if not begun or value < 1000 else (total, place)
    if not begun:
        return None
    last = _below(words, place + 1) if _is(words, place, ("and",)) else None
    return (total + last[0], last[1]) if last and last[0] < 100 else (total, place)


def _group(words: Sequence[str], place: int) -> _Part | None:
    first = _below(words, place)
    value, after = first or (Decimal(1), place)
    hundred = _past_hyphen(words, after) if first else place
    if _is(words, hundred, ("hundred",)):
        rest = _past_hyphen(words, hundred + 1)
        rest += _is(words, rest, ("and",))
        last = _below(words, rest)
        return (100 * value + last[0], last[1]) if last and last[0] < 100 else (100 * value, hundred + 1)
    if first and _is(words, place, _SPELLED) and 10 <= value <= 20 and _is(words, after, _SPELLED):
        second = _below(words, after)
        if second and second[0] >= 10:
            return 100 * value + second[0], second[1]
    return first


def _below(words: Sequence[str], place: int) -> _Part | None:
    if _is(words, place, _TENS):
        unit = _past_hyphen(words, place + 1)
        if _is(words, unit, _UNITS) and 0 < _UNITS[words[unit]] < 10:
            return Decimal(_TENS[words[place]] + _UNITS[words[unit]]), unit + 1
    if _is(words, place, _SPELLED):
        return Decimal(_SPELLED[words[place]]), place + 1
    return (Decimal(words[place]), place + 1) if place < len(words) and _DIGITS.fullmatch(words[place]) else None


def _is(words: Sequence[str], place: int, known: Sequence[str] | dict[str, int]) -> bool:
    return place < len(words) and words[place] in known


def _past_hyphen(words: Sequence[str], place: int) -> int:
    return place + _is(words, place, (_HYPHEN,))


def _written(number: Decimal) -> str:
    text = format(number, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
