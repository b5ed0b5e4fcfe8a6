"""Text of models, servers and imported files on its way to a terminal or a log, where control characters would be obeyed."""

from __future__ import annotations

import re

# All control characters but tab and line feed, with those that turn the direction of writing: what is shown must be what was said.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """`text` with a replacement character in the place of each one that a terminal would obey."""
    return _OBEYED.sub("\ufffd", text)


def one_line(text: str) -> str:
    """`text` as one printable line, as messages are."""
    return printable(" ".join(text.split()))
