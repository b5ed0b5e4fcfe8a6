"""The LLM user as it is found by name: `llm`, and as an appraiser `llm:DIFFICULTY`. Its section of the parameters: simulator.llm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlver.components.domain.kinds import UserKind, Wanted
from rlver.components.users.llm.section import LLMUserSection
from rlver.components.users.llm.usage import Usage, dialogue_usage


def _simulator(wanted: Wanted) -> Any:
    from rlver.components.users.llm.simulator import LLMSimulator

    if wanted.endpoint is None:
        raise RuntimeError("an LLM user needs an endpoint")
    return LLMSimulator(wanted.endpoint, wanted.which or wanted.difficulty, wanted.parameters, wanted.emotion_start)


def _appraiser(wanted: Wanted) -> Any:
    from rlver.components.users.llm.simulator import LLMAppraiser

    return LLMAppraiser(_simulator(wanted))


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
        for step, one in dialogue_usage(language, turns, section.combined and "appraiser" in halves).items():
            if half_of[step] in halves:
                model = str(getattr(section, half_of[step]).model)
                found[model] = found.get(model, Usage(0, 0, 0)).plus(one)
        return found

    return UserKind(make, LLMUserSection, models, usage, written="[:DIFFICULTY]")


APPRAISER = _asking(_appraiser, "appraiser")
SPEAKER = _asking(_simulator, "speaker")
SIMULATOR = _asking(_simulator, "appraiser", "speaker")
