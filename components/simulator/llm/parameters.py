"""The values an LLM user is made with. No defaults: they stand in params.yaml."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelParameters:
    """Which model is asked, and how it samples. `max_tokens` bounds one answer."""

    model: str
    temperature: float
    top_p: float
    max_tokens: int

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ValueError("model must be named, got an empty name")
        if self.temperature < 0:
            raise ValueError(f"temperature must be 0 or more, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be 1 or more, got {self.max_tokens}")


@dataclass(frozen=True)
class LLMUserParameters:
    """`combined` asks once per turn for appraisal and message together; then both must be the same model with the same values.

    `max_repairs` bounds how often an unusable answer is asked for again, for each question. `max_quoted_characters` bounds each
    text of the dialogue inside a prompt; what is longer is cut, and the cut is shown.
    """

    appraiser: ModelParameters
    speaker: ModelParameters
    combined: bool
    max_repairs: int
    max_quoted_characters: int

    def __post_init__(self) -> None:
        if self.combined and self.appraiser != self.speaker:
            raise ValueError("combined is one call to one model, so appraiser and speaker must have the same values")
        if self.max_repairs < 0:
            raise ValueError(f"max_repairs must be 0 or more, got {self.max_repairs}")
        if self.max_quoted_characters < 1:
            raise ValueError(f"max_quoted_characters must be 1 or more, got {self.max_quoted_characters}")
