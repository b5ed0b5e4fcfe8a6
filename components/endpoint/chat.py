"""One question to a language model behind an OpenAI-compatible endpoint, its answer, and the ways in which asking fails.

An answer that arrived need not be whole: `finish_reason` says whether it was cut off (`length`) or withheld (`content_filter`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


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


class BudgetExceeded(EndpointError):
    """Raised before the call whose worst case would exceed the budget."""


class NotRecorded(EndpointError):
    """Replay: no answer is stored for this request."""


class ChatEndpoint(Protocol):
    """Answers a request or raises EndpointError."""

    async def chat(self, request: ChatRequest) -> ChatAnswer: ...
