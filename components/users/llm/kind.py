"""The LLM user as it is found by name: `llm`, and as an appraiser `llm:DIFFICULTY`. Its section of the parameters: simulator.llm.

What it takes of its endpoint is stated for plans, under assumptions; what was spent stands in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field, model_validator

from rlver.components.domain.kinds import Section, UserKind, Wanted


class ModelSection(Section):
    """A model behind a chat endpoint; None until a variant names one."""

    model: str | None
    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    max_tokens: int = Field(ge=1)


class LLMUserSection(Section):
    """`combined` asks once per turn for appraisal and message together, of a user who is both; then both must be the same model with the same values.

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


def _simulator(wanted: Wanted) -> Any:
    from rlver.components.users.llm.simulator import LLMSimulator

    if wanted.endpoint is None:
        raise RuntimeError("an LLM user needs an endpoint")
    return LLMSimulator(wanted.endpoint, wanted.which or wanted.difficulty, wanted.parameters, wanted.emotion_start)


def _half(wanted: Wanted) -> Any:
    return _simulator(wanted).half()


def _appraiser(wanted: Wanted) -> Any:
    from rlver.components.users.llm.simulator import LLMAppraiser

    return LLMAppraiser(_half(wanted))


def _asking(make: Callable[[Wanted], Any], *halves: str) -> UserKind:
    """A kind that asks the models of these halves only."""

    def models(section: Any) -> Sequence[str]:
        named = [getattr(section, half).model for half in halves]
        if not all(named):
            names = " and ".join(f"llm.{half}.model" for half in halves)
            raise ValueError(f"kind is llm, so {names} must name models of the endpoint")
        return named

    def usage(section: Any, language: str, turns: int) -> Mapping[str, Usage]:
        """Of one dialogue, by model."""
        half_of = {"appraise": "appraiser", "speak": "speaker", "combined": "appraiser"}
        found: dict[str, Usage] = {}
        for step, one in dialogue_usage(language, turns, section.combined and len(halves) == 2).items():
            if half_of[step] in halves:
                model = str(getattr(section, half_of[step]).model)
                found[model] = found.get(model, Usage(0, 0, 0)).plus(one)
        return found

    return UserKind(make, LLMUserSection, models, usage, written="[:DIFFICULTY]")


APPRAISER = _asking(_appraiser, "appraiser")
SPEAKER = _asking(_half, "speaker")
SIMULATOR = _asking(_simulator, "appraiser", "speaker")
