"""The LLM user as it is found by name: `llm`, and as an appraiser `llm:DIFFICULTY`. Its section of the parameters: simulator.llm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlver.components.domain.kinds import UserKind, Wanted
from rlver.components.users.llm.parameters import LLMUserParameters, ModelParameters, Usage, dialogue_usage
from rlver.components.users.llm.section import LLMUserSection

if TYPE_CHECKING:
    from rlver.components.users.llm.simulator import LLMAppraiser, LLMSimulator


def _simulator(wanted: Wanted) -> LLMSimulator:
    from rlver.components.users.llm.simulator import LLMSimulator

    if wanted.endpoint is None:
        raise RuntimeError("an LLM user needs an endpoint")
    section: LLMUserSection = wanted.parameters
    parameters = LLMUserParameters(
        appraiser=ModelParameters(**section.appraiser.model_dump()),
        speaker=ModelParameters(**section.speaker.model_dump()),
        **section.model_dump(include={"combined", "max_repairs", "max_quoted_characters"}),
    )
    return LLMSimulator(wanted.endpoint, wanted.which or wanted.difficulty, parameters, wanted.emotion_start)


def _appraiser(wanted: Wanted) -> LLMAppraiser:
    from rlver.components.users.llm.simulator import LLMAppraiser

    return LLMAppraiser(_simulator(wanted))


def _models(section: Any) -> Sequence[str]:
    named = [section.appraiser.model, section.speaker.model]
    if not all(named):
        raise ValueError("kind is llm, so llm.appraiser.model and llm.speaker.model must name models of the endpoint")
    return named


def _usage(section: Any, language: str, turns: int) -> Mapping[str, Usage]:
    """Of one dialogue, by model."""
    model_of = {"appraise": section.appraiser.model, "speak": section.speaker.model, "combined": section.appraiser.model}
    usage: dict[str, Usage] = {}
    for step, one in dialogue_usage(language, turns, section.combined).items():
        model = str(model_of[step])
        usage[model] = usage.get(model, Usage(0, 0, 0)).plus(one)
    return usage


APPRAISER = UserKind(_appraiser, LLMUserSection, _models, _usage, written="[:DIFFICULTY]")
SPEAKER = SIMULATOR = UserKind(_simulator, LLMUserSection, _models, _usage, written="[:DIFFICULTY]")
