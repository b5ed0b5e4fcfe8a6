"""The values an LLM user is made with. No defaults: they stand in params.yaml.

What an LLM user takes of its endpoint: calls, and tokens under stated assumptions. For plans; what was spent stands in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
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


_PROMPT = {  # tokens before anything was said: instructions and persona
    "en": {"appraise": 2450, "speak": 3000, "combined": 3400},
    "zh": {"appraise": 1950, "speak": 2250, "combined": 2550},
}
_EXCHANGE = 200  # tokens a message and its reply add, quotation marks and names included
_ANSWER = {"appraise": 230, "speak": 260, "combined": 490}


@dataclass(frozen=True)
class Usage:
    calls: int
    tokens_in: int
    tokens_out: int

    def times(self, dialogues: int) -> Usage:
        return Usage(self.calls * dialogues, self.tokens_in * dialogues, self.tokens_out * dialogues)

    def plus(self, other: Usage) -> Usage:
        return Usage(self.calls + other.calls, self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out)


def tokens_in(step: str, language: str, exchanges: int) -> int:
    """Of one question (appraise, speak or combined) after so many exchanges."""
    return _PROMPT[language][step] + _EXCHANGE * exchanges


def dialogue_usage(language: str, turns: int, combined: bool) -> dict[str, Usage]:
    """Of one dialogue that lasts `turns` turns, by step; the last reply is appraised, and nothing is said after it."""
    if combined:
        return {"combined": _usage("combined", language, range(1, turns + 1))}
    return {"appraise": _usage("appraise", language, range(1, turns + 1)), "speak": _usage("speak", language, range(1, turns))}


def _usage(step: str, language: str, exchanges: Iterable[int]) -> Usage:
    sizes = [tokens_in(step, language, count) for count in exchanges]
    return Usage(len(sizes), sum(sizes), _ANSWER[step] * len(sizes))
