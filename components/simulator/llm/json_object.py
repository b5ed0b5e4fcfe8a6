"""The strict reading of an answer that must be one JSON object, alone or inside one ```json fence.

A reason is made of our own words only, because it is shown to the model when the question is asked again, and an answer may repeat
what somebody else wrote.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from pydantic import ValidationError

_MOST_LEVELS = 20  # of lists and objects in each other; no answer that is asked for has more than 4
NOTHING_AROUND = "must be exactly one JSON object with nothing around it"

_FENCE = re.compile(r"```json[ \t]*\n(?P<inside>.*)\n[ \t]*```", re.DOTALL)


class NotOneObject(ValueError):
    """The text is not one JSON object; the message holds no word of it."""


def json_object(text: str) -> dict[str, Any]:
    """Raises NotOneObject, also for a key that stands twice and for numbers that are not JSON's."""
    fenced = _FENCE.fullmatch(text.strip())
    try:
        value = json.loads(fenced["inside"] if fenced else text, object_pairs_hook=_unique, parse_constant=_refuse_number)
    except NotOneObject:
        raise
    except (ValueError, RecursionError):  # not JSON, more than one value, a number too long to read, nested too deep
        raise NotOneObject(NOTHING_AROUND) from None
    if not isinstance(value, dict):
        raise NotOneObject(NOTHING_AROUND)
    _refuse_deep(value, _MOST_LEVELS)
    return value


def first_fault(error: ValidationError) -> str:
    """The first fault in words that hold nothing of the answer: an unknown key is not repeated."""
    fault = error.errors(include_input=False, include_url=False)[0]
    if fault["type"] == "extra_forbidden":
        return "a key that was not asked for"
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"


def _refuse_deep(value: Any, levels: int) -> None:
    """Raise NotOneObject for more levels: whoever walks through them would break."""
    if isinstance(value, dict | list):
        if not levels:
            raise NotOneObject("it is nested too deep")
        for one in value.values() if isinstance(value, dict) else value:
            _refuse_deep(one, levels - 1)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise NotOneObject("a key stands twice")
    return dict(pairs)


def _refuse_number(_: str) -> NoReturn:
    raise NotOneObject("a number is no JSON number")
