"""Text of models, servers and imported files on its way to a terminal, a log or a file: what would be obeyed, what no file can hold, and
what is nobody's business."""

from __future__ import annotations

import re

# All control characters but tab and line feed, with those that turn the direction of writing: what is shown must be what was said.
# And halves of characters, at which every stream and file breaks.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")

# A name and password end at the last @ before the path; an unescaped / in the password is allowed for where no port stands before it.
_LOGIN = re.compile(r"(?<=:)//(?!/)(?:[^\s/]*|[^\s/:@]{0,100}:(?!\d{1,5}/)\S{0,300})@")
_SECRET_FIELD = re.compile(r"([?&][^\s?&=]{0,40}(?:pass|pwd|key|token|secret)[^\s?&=]{0,40}=)[^\s&]+", re.IGNORECASE)

_LONGEST_LINE = 2_000  # characters: a foreign name in a message may be as long as its file


def printable(text: str) -> str:
    """`text` with a replacement character in the place of each one that a terminal would obey."""
    return _OBEYED.sub("\ufffd", text)


def one_line(text: str) -> str:
    """`text` as one printable line without passwords, as messages are: of a long one the beginning and the end, where the advice stands."""
    line = printable(without_secrets(" ".join(text.split())))
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 500]} … {line[-497:]}"


def whole_characters(text: str) -> str:
    """`text` with a replacement character in the place of each lone surrogate (half of a character), which no UTF-8 can hold."""
    return _HALF.sub("\ufffd", text)


def without_secrets(text: str) -> str:
    """`text` without the names, passwords and keys that stand in its addresses: before a host, or as a value of a query."""
    return _SECRET_FIELD.sub(r"\1[hidden]", _LOGIN.sub("//[hidden]@", text))


def first_line(error: Exception) -> str:
    """The first line of a library's message; the error's kind where it has none."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
