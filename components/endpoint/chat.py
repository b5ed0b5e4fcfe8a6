"""One question to a language model behind an OpenAI-compatible endpoint, its answer, and the ways in which asking fails.

An answer that arrived need not be whole: `finish_reason` says whether it was cut off (`length`) or withheld (`content_filter`). The key is sent in
one header, and taken out of everything that the server says.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Protocol
from urllib.parse import quote


@dataclass(frozen=True)
class Message:
    """What one side said; `role` is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True)
class ChatRequest:
    """One call. `schema` is a JSON schema the answer must follow (response_format json_schema where the server has it)."""

    model: str
    messages: tuple[Message, ...]
    temperature: float
    top_p: float
    max_tokens: int
    seed: int | None
    schema: Mapping[str, Any] | None = None
    attempt: int = 0  # part of the cache key: a repair asks again under another key

    def canonical_json(self) -> str:
        """ASCII JSON, the same text for equal requests: what the store of answers is keyed by. The address is no part of it."""
        value = {
            "model": self.model,
            "messages": [[message.role, message.content] for message in self.messages],
            "temperature": float(self.temperature),
            "top_p": float(self.top_p),
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "schema": self.schema,
            "attempt": self.attempt,
        }
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class ChatAnswer:
    """What the model said. `seconds` is the time of the HTTP call that brought it, also when it comes from the store (`cached`)."""

    text: str
    reasoning: str | None  # reasoning_content, where the server gives it
    finish_reason: str  # stop | length | content_filter | ...
    tokens_in: int  # 0 where the server does not count
    tokens_out: int
    seconds: float
    cached: bool


class EndpointError(RuntimeError):
    """No answer. The message is one readable line that says what to do and never holds the key."""


class EndpointUnavailable(EndpointError):
    """After bounded retries: time-outs, 429, 5xx, unusable bodies, connection refused; or the circuit breaker is open."""


class EndpointRefused(EndpointError):
    """Wrong key, unknown model, no credit, no such address: this and every other call would be refused again."""


class RequestRefused(EndpointRefused):
    """Refused for what this request holds: too long, its content, a parameter. Another one may be answered."""


class RequestTooLong(RequestRefused):
    """The messages and the answer do not fit into the model's context."""


class BudgetExceeded(EndpointError):
    """Raised before the call whose worst case would exceed the budget."""


class NotRecorded(EndpointError):
    """Replay: no answer is stored for this request."""


class ChatEndpoint(Protocol):
    """Answers a request or raises EndpointError."""

    async def chat(self, request: ChatRequest) -> ChatAnswer: ...


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

    def _value(self) -> str:
        return (self._read() or "").strip()

    @property
    def is_set(self) -> bool:
        return bool(self._value())

    def authorization(self) -> str | None:
        """The header's value; None without a key. Raises EndpointRefused for a key that no header can carry."""
        value = self._value()
        if not value:
            return None
        if not re.fullmatch(r"[\x21-\x7e]+", value):
            raise EndpointRefused(f"the key in {self.variable} has spaces, line breaks or letters outside ASCII: set it again")
        return f"Bearer {value}"

    def hide(self, text: str) -> str:
        """`text` without the key."""
        value = self._value()
        for form in {value, quote(value, safe="")} - {""}:
            text = re.sub(re.escape(form), HIDDEN, text, flags=re.IGNORECASE)
        return text

    def hide_secret(self, text: str) -> str:
        """The same where an answer is not to be damaged: only if the key is long enough to be a secret."""
        return text if len(self._value()) < _SECRET_CHARACTERS else self.hide(text)


_RETRIED = {408, 409, 425, 429}  # and all from 500 on
_GATEWAY = {408, 502, 504, 522, 524, 598, 599}  # somebody gave up waiting; the model may have answered and the answer may be billed
_QUOTED_CHARACTERS = 200
_CONTEXT = re.compile(r"context.?(?:size|length|window)")
_EXCEEDED = re.compile(r"context size has been exceeded|exceeds? the available context")  # of llama.cpp, with a 500
_TOO_LONG = re.compile(
    rf"{_CONTEXT.pattern}|maximum (?:model |input |prompt )?length|max_model_len|max_new_tokens. must be|maximum number of tokens"
    "|too many tokens|too long"
)
_WITHHELD = re.compile(
    r"content.?filter|content.?policy|content management|content exists risk|safety system|requires moderation|(?:input|prompt|content|request)\b.*\bflagged"
)
SHORT_REPR = reprlib.Repr()  # repr() itself fails on lists that are nested deep
SHORT_REPR.maxstring = SHORT_REPR.maxother = 2 * _QUOTED_CHARACTERS


@dataclass(eq=False)
class Hiccup(Exception):
    """One attempt failed in a way that another may not; never leaves this package."""

    kind: str  # an identifier, counted by the ledger
    what: str
    advice: str
    pause_s: float | None = None  # asked for by the server
    may_have_cost: bool = False
    server_is_well: bool = False

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True)
class Place:
    """Where a fault happened, for its message."""

    url: str
    model: str
    key: Key


def fault_of(status: int, body: Any, pause_s: float | None, place: Place) -> Hiccup | EndpointRefused:
    """The fault behind an HTTP status other than 200. `body` is the decoded JSON or None; `pause_s` is its Retry-After."""
    said, code = complaint(body, place.key)
    quoted = _quoted(said)
    if "insufficient_quota" in code or status == 402:
        return EndpointRefused(f"{place.url}: no credit left (HTTP {status}){quoted}; top up the account: answered calls are kept")
    if status >= 500 and _EXCEEDED.search(said.lower()):
        return _too_long(said, place)
    if status in _RETRIED or status >= 500:
        advice = (
            "lower requests_per_minute, tokens_per_minute or concurrency"
            if status == 429
            else "the server has trouble: try again later, answered calls are kept"
        )
        return Hiccup(f"http_{status}", f"HTTP {status}{quoted}", advice, pause_s=pause_s, may_have_cost=status in _GATEWAY)
    if status != 401 and (refused := _fault_of_request(status, said, code, place)):
        return refused
    if why := _fault_of_all(status, said, code, place):
        return EndpointRefused(f"{place.url}: {why}")
    return RequestRefused(f"{place.url}: the request was refused (HTTP {status}){quoted}; check the parameters of {place.model!r}")


def _fault_of_request(status: int, said: str, code: str, place: Place) -> RequestRefused | None:
    words = f"{code} {said}".lower()
    if status != 403 and _TOO_LONG.search(words):
        return _too_long(said, place)
    if _WITHHELD.search(words):
        return RequestRefused(f"{place.url}: the content was refused{_quoted(said)}; change the prompt or ask another model")
    return None


def _too_long(said: str, place: Place) -> RequestTooLong:
    advice = "shorten the conversation, lower max_tokens or serve a longer context"
    return RequestTooLong(f"{place.url}: too long for {place.model!r}{_quoted(said)}; {advice}")


def _quoted(said: str) -> str:
    return f": {said}" if said else ""


def _fault_of_all(status: int, said: str, code: str, place: Place) -> str | None:
    quoted = _quoted(said)
    if status == 401:
        if not place.key.is_set:
            return f"a key is needed (HTTP 401): set {place.key.variable}"
        return f"the key was not accepted (HTTP 401): check {place.key.variable}"
    if status == 403:
        return f"not allowed (HTTP 403){quoted}; may the key in {place.key.variable} use {place.model!r}?"
    if re.search(
        r"\bmodel\b.*(?:not exist|not found|not a valid)|model_not_found|unknown model|no such model|invalid model",
        f"{code} {said}".lower(),
    ):
        return f"unknown model {place.model!r}{quoted}; GET {place.url}/models lists the models"
    if status == 404 or 300 <= status < 400:
        return f"no chat endpoint here (HTTP {status}){quoted}; check the address, which usually ends in /v1"
    return None


def complaint(body: Any, key: Key) -> tuple[str, str]:
    """The server's message, one printable line without the key, and its error's code and type; empty where there are none."""
    if isinstance(body, list) and body:  # Gemini's way
        body = body[0]
    error = body.get("error", body) if isinstance(body, Mapping) else None
    if isinstance(error, str):
        return one_line(error, key), ""
    if not isinstance(error, Mapping):
        return "", ""
    said = error.get("message") or error.get("detail") or ""
    kinds = [one_line(error[name], key) for name in ("code", "type") if error.get(name)]
    return one_line(said, key), " ".join(kinds)


def one_line(said: Any, key: Key) -> str:
    """The beginning of what a server said, without the key and as one printable line. Of lists and objects only the outer levels."""
    said = _without(key, said)  # before anything is cut, so that no half of it is left
    text = said if isinstance(said, str) else SHORT_REPR.repr(said)
    line = " ".join("".join(c if c.isprintable() else " " for c in key.hide(text)).split())
    return line if len(line) <= _QUOTED_CHARACTERS else f"{line[:_QUOTED_CHARACTERS]}…"


def _without(key: Key, said: Any, levels: int = SHORT_REPR.maxlevel) -> Any:
    """The same with the key hidden in every text, as deep as SHORT_REPR shows."""
    if isinstance(said, str):
        return key.hide(said)
    if levels and isinstance(said, list):
        return [_without(key, one, levels - 1) for one in said]
    if levels and isinstance(said, Mapping):
        return {_without(key, name): _without(key, value, levels - 1) for name, value in said.items()}
    return said


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Seconds that a Retry-After header (a number of seconds, or an HTTP date) asks to wait from `now_s`, a Unix time; None without one."""
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d+(?:\.\d+)?", value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now_s)
    except (ValueError, OverflowError):
        return None
