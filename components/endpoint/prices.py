"""What a call costs, and the most that it can cost before it is made.

Nobody's tokenizer is at hand here. A byte-level tokenizer makes at most one token of a byte, so bytes bound tokens from above.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from components.endpoint.chat import ChatRequest

# What chat templates add: a default system prompt and the words around a schema; role and end marks of each message.
_TOKENS_PER_REQUEST = 128
_TOKENS_PER_MESSAGE = 16


@dataclass(frozen=True)
class Price:
    """Money per million tokens, in the one currency of the price table and the budget."""

    million_in: float
    million_out: float

    def __post_init__(self) -> None:
        if not (self.million_in >= 0 and self.million_out >= 0):
            raise ValueError(f"a price per million tokens must be 0 or more, got {self.million_in} in and {self.million_out} out")

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
