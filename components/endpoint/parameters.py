"""The numbers of an endpoint. None has a default: they come from params.yaml, the address and the key from the environment.

What a call costs, and the most that it can cost before it is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from rlver.components.endpoint.chat import ChatRequest

# What chat templates add: a default system prompt and the words around a schema; role and end marks of each message.
_TOKENS_PER_REQUEST = 128
_TOKENS_PER_MESSAGE = 16


@dataclass(frozen=True)
class Price:
    """Money per million tokens, in the one currency of the price table and the budget."""

    million_in: float
    million_out: float

    def of(self, tokens_in: int, tokens_out: int) -> float:
        return (tokens_in * self.million_in + tokens_out * self.million_out) / 1e6


def tokens_in_at_most(request: ChatRequest) -> int:
    """An upper bound of the prompt's tokens, about four times what English or Chinese text has."""
    texts = [message.content for message in request.messages]
    if request.schema is not None:
        texts.append(json.dumps(request.schema))
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    return _TOKENS_PER_REQUEST + _TOKENS_PER_MESSAGE * len(request.messages) + size


def money_at_most(request: ChatRequest, prices: Mapping[str, Price]) -> float | None:
    """The most that one call of `request` can cost; None when its model has no price."""
    price = prices.get(request.model)
    return None if price is None else price.of(tokens_in_at_most(request), request.max_tokens)


_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class EndpointParameters:
    """One endpoint and how it may be used. Numbers are checked where they are read (section.py); raises ValueError for an address that is none."""

    base_url: str  # http(s)://host[:port]/v1
    key_variable: str  # the name of the environment variable with the key, for messages
    concurrency: int  # calls in flight, and open connections
    requests_per_minute: int | None
    tokens_per_minute: int | None  # in and out together
    connect_timeout_s: float
    answer_timeout_s: float  # of one attempt, from connecting to the last byte
    attempts: int  # of one call, the first one included
    backoff_first_s: float  # the first wait is drawn from 0..this, each later one from twice the range
    backoff_most_s: float
    retry_after_most_s: float  # a server that asks for a longer pause is unavailable
    breaker_failures: int  # in a row, until nothing is asked any more
    breaker_cool_down_s: float  # until one call may try again
    jitter_seed: int
    prices: Mapping[str, Price]  # by model
    currency: str  # of the prices and the budget
    budget: float | None  # money, over all that the answers' file has recorded

    def __post_init__(self) -> None:
        check_base_url(self.base_url)


def check_base_url(base_url: str) -> None:
    """Raise ValueError unless this is a plain http(s) address: secrets in an address would end in logs and messages."""
    if set("@?#") & set(base_url):
        raise ValueError("the address of an endpoint must hold no user, password or query: put the key into its environment variable")
    if origin(base_url) is None:
        raise ValueError("the address of an endpoint must look like http://127.0.0.1:8100/v1")


def origin(base_url: str) -> str | None:
    """Scheme, host and port of an http(s) address, in one form for all ways to write them: whom a key was given for. None for no address.

    Only ASCII without spaces and backslashes counts as an address: in all else programs do not agree where the host ends.
    """
    if not re.fullmatch(r"[!-\[\]-~]+", base_url):
        return None
    try:
        parts = urlsplit(base_url)
        port = parts.port if parts.port is not None else _PORTS.get(parts.scheme)
    except ValueError:
        return None
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}" if parts.scheme in _PORTS and host and port else None


def is_on_this_machine(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")
