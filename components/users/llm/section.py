"""The section simulator.llm of params.yaml: which models play the user, and how they are asked."""

from __future__ import annotations

from pydantic import Field, model_validator

from rlver.components.domain.kinds import Section


class ModelSection(Section):
    """A model behind a chat endpoint; None until a variant names one."""

    model: str | None
    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    max_tokens: int = Field(ge=1)


class LLMUserSection(Section):
    """`combined` asks once per turn for appraisal and message together; then both must be the same model with the same values.

    `max_repairs` bounds how often an unusable answer is asked for again, for each question. `max_quoted_characters` bounds each
    text of the dialogue inside a prompt; what is longer is cut, and the cut is shown.
    """

    appraiser: ModelSection
    speaker: ModelSection
    combined: bool
    max_repairs: int = Field(ge=0)
    max_quoted_characters: int = Field(ge=1)

    @model_validator(mode="after")
    def _one_call_is_one_model(self) -> LLMUserSection:
        if self.combined and self.appraiser != self.speaker:
            raise ValueError("combined is one call to one model, so appraiser and speaker must have the same values")
        return self
