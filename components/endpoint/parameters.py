"""The numbers of an endpoint. None has a default: they come from params.yaml, the address and the key from the environment.

With prices: what a call costs, and the most that it can cost before it is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from rlver.components.domain.kinds import Section
from rlver.components.endpoint.address import check_base_url
from rlver.components.endpoint.chat import ChatRequest

# What chat templates add: a default system prompt and the words around a schema; role and end marks of each message.
_TOKENS_PER_REQUEST = 128
_TOKENS_PER_MESSAGE = 16


class Price(Section):
    """Money per million tokens, in the one currency of the price table and the budget."""

    million_in: float = Field(ge=0)
    million_out: float = Field(ge=0)

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


class EndpointSettings(Section):
    """The section `endpoint` of params.yaml: how chat endpoints are asked. None of it changes an answer."""

    concurrency: int = Field(ge=1)  # calls in flight, and open connections
    requests_per_minute: int | None = Field(gt=0)
    tokens_per_minute: int | None = Field(gt=0)  # in and out together
    connect_timeout_s: float = Field(gt=0)
    answer_timeout_s: float = Field(gt=0)  # of one attempt, from connecting to the last byte
    attempts: int = Field(ge=1)  # of one call, the first one included
    backoff_first_s: float = Field(ge=0)  # the first wait is drawn from 0..this, each later one from twice the range
    backoff_most_s: float = Field(ge=0)
    retry_after_most_s: float = Field(ge=0)  # a server that asks for a longer pause is unavailable
    breaker_failures: int = Field(ge=1)  # in a row, until nothing is asked any more
    breaker_cool_down_s: float = Field(ge=0)  # until one call may try again
    currency: str = Field(pattern="^[A-Z]{3}$")  # of the prices and the budget
    prices: dict[str, Price]  # by model
    budget: float | None = Field(ge=0)  # money, over all that the answers' file has recorded


class EndpointParameters(EndpointSettings, hide_input_in_errors=True):
    """One endpoint and how it may be used. Raises ValueError for an address that is none."""

    base_url: Annotated[str, AfterValidator(check_base_url)]  # http(s)://host[:port]/v1
    key_variable: str  # the name of the environment variable with the key, for messages
    jitter_seed: int
    budget: float | None = Field(ge=0, allow_inf_nan=True)  # --budget may say inf

    @property
    def url(self) -> str:
        """As messages give it."""
        return self.base_url.rstrip("/")
