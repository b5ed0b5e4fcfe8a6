"""The key of an endpoint: sent in one header, and taken out of everything that the server says.

A server may repeat the key in an error, a header or an answer. Whatever it sends passes `hide` or `hide_secret` before it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

from components.endpoint.chat import EndpointRefused

# Shorter ones ("EMPTY", "token-abc123") are placeholders for local servers; looking for them would damage honest answers.
_SECRET_CHARACTERS = 16
HIDDEN = "[key]"


class Key:
    """Reads the key when it is needed and holds it nowhere; `variable` is the name that messages may show."""

    def __init__(self, read: Callable[[], str | None], variable: str) -> None:
        self._read = read
        self.variable = variable

    def __repr__(self) -> str:
        return f"Key({self.variable})"

    @property
    def is_set(self) -> bool:
        return bool((self._read() or "").strip())

    def authorization(self) -> str | None:
        """The header's value; None without a key. Raises EndpointRefused for a key that no header can carry."""
        value = (self._read() or "").strip()
        if not value:
            return None
        if not re.fullmatch(r"[\x21-\x7e]+", value):
            raise EndpointRefused(f"the key in {self.variable} has spaces, line breaks or letters outside ASCII: set it again")
        return f"Bearer {value}"

    def hide(self, text: str) -> str:
        """`text` without the key."""
        value = (self._read() or "").strip()
        for form in {value, quote(value, safe="")} - {""}:
            text = re.sub(re.escape(form), HIDDEN, text, flags=re.IGNORECASE)
        return text

    def hide_secret(self, text: str) -> str:
        """The same where an answer is not to be damaged: only if the key is long enough to be a secret."""
        return text if len((self._read() or "").strip()) < _SECRET_CHARACTERS else self.hide(text)
