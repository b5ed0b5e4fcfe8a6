"""The section `policy` of params.yaml: how the policy talks while it is trained."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from rlver.components.domain.kinds import Section


class PolicySettings(Section):
    thinking: bool
    thoughts: Literal["keep", "strip"]
    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    precision: Literal["float32", "native"]
    max_reply_tokens: int = Field(ge=1)
    max_context_tokens: int = Field(ge=64)

    @model_validator(mode="after")
    def _a_reply_fits(self) -> PolicySettings:
        if self.max_reply_tokens >= self.max_context_tokens:
            raise ValueError("max_reply_tokens must be less than max_context_tokens")
        return self
