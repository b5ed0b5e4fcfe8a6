"""The section `endpoint` of params.yaml: how chat endpoints are asked. None of it changes an answer."""

from __future__ import annotations

from pydantic import Field

from rlver.components.domain.kinds import Section


class PriceSettings(Section):
    million_in: float = Field(ge=0)
    million_out: float = Field(ge=0)


class EndpointSettings(Section):
    concurrency: int = Field(ge=1)
    requests_per_minute: int | None = Field(gt=0)
    tokens_per_minute: int | None = Field(gt=0)
    connect_timeout_s: float = Field(gt=0)
    answer_timeout_s: float = Field(gt=0)
    attempts: int = Field(ge=1)
    backoff_first_s: float = Field(ge=0)
    backoff_most_s: float = Field(ge=0)
    retry_after_most_s: float = Field(ge=0)
    breaker_failures: int = Field(ge=1)
    breaker_cool_down_s: float = Field(ge=0)
    currency: str = Field(pattern="^[A-Z]{3}$")
    prices: dict[str, PriceSettings]
    budget: float | None = Field(ge=0)
