"""What a chat endpoint is asked, what it answers, and how it fails. No I/O here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Message:
    role: str  # system | user | assistant
    content: str


@dataclass(frozen=True)
class ChatRequest:
    """One question, whole: what is equal here is the same question, and a cache may answer it."""

    model: str
    messages: tuple[Message, ...]
    temperature: float
    top_p: float
    max_tokens: int
    seed: int | None
    schema: Mapping[str, Any] | None = None  # JSON schema of the answer, where the server can hold it to one
    attempt: int = 0  # part of the cache key: a repair asks again under another key


@dataclass(frozen=True)
class ChatAnswer:
    text: str
    reasoning: str | None
    finish_reason: str
    tokens_in: int
    tokens_out: int
    seconds: float
    cached: bool


class EndpointError(RuntimeError):
    """The endpoint gave no answer; the message carries no secret."""


class EndpointUnavailable(EndpointError):
    """Not reached, or no answer after bounded retries."""


class EndpointRefused(EndpointError):
    """Reached, and it will not answer this request."""


class BudgetExceeded(EndpointError):
    """The next call could cost more than is allowed; the run must stop."""


class NotRecorded(EndpointError):
    """Replaying, and this request was never answered."""


class ChatEndpoint(Protocol):
    async def chat(self, request: ChatRequest) -> ChatAnswer:
        """Raises EndpointError."""
        ...
