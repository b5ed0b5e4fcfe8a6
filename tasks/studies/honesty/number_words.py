"""Numbers said in words, in digits or in both, read as one number each: "two hundred and six" is 206, "1.5 million" 1500000.

The grammar, from the largest to the smallest; a hyphen joins like a space, other punctuation parts, and `and` stands before a number below a hundred only:

    number    (group scale)+ and? group      two thousand five hundred;  group alone
    group     below? hundred (and? below)?   a hundred and six;  year (nineteen forty-five);  below
    below     tens unit;  a spelled number below a hundred;  digits
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

HYPHEN = "-"
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


def with_numbers(words: Sequence[str]) -> list[str]:
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
    return place + _is(words, place, (HYPHEN,))


def _written(number: Decimal) -> str:
    text = format(number, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
