"""What a module registers: how one is made, and the section of parameters that it brings. Where it is found: registry.py.

A section stands under the kind's own name, in `simulator`, `reward`, `train` or `base` of params.yaml, and is read by the class in
`parameters`; a kind without parameters has None there, and no section.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from rlver.components.domain.transcript import Dialogue


class Section(BaseModel):
    """A section of params.yaml: an unknown key, another type, a missing value and a number that is none are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def own_section(section: Section, kind: str) -> Any:
    """The section that a kind brought, inside the one that it is chosen in; None where it brought none."""
    found = getattr(section, kind, None)
    return found if isinstance(found, BaseModel) else None


@dataclass(frozen=True)
class Wanted:
    """What users are made from. `which` is what was written behind the name of the kind (`distilled:FOLDER`), "" where nothing was."""

    difficulty: str
    emotion_start: int = 40
    which: str = ""
    parameters: Any = None  # of the kind's own section, as its model has read them
    endpoint: Any = None  # a ChatEndpoint, for kinds that name models


@dataclass(frozen=True)
class UserKind:
    """Of an appraiser, a speaker or a simulator: `make` gives an AppraiserKind, a SpeakerKind or a Simulator (protocols.py).

    `models` names the models that a chat endpoint is asked for: none where nobody is asked; it raises ValueError where one is not chosen yet.
    `usage` is what they take for one dialogue, by model (a Usage). `folder` is that whose files decide what is said, beside the code.
    `weights` names the packages of weights (packages.py) that it reads with.
    """

    make: Callable[[Wanted], Any]
    parameters: type[Section] | None = None
    models: Callable[[Any], Sequence[str]] = lambda parameters: ()
    usage: Callable[[Any, str, int], Mapping[str, Any]] = lambda parameters, language, turns: {}
    folder: Callable[[str], Path | None] = lambda which: None
    weights: tuple[str, ...] = ()
    written: str = ""  # how `which` is written behind the name, for messages: `:FOLDER`, `[:DIFFICULTY]`

    @property
    def asks_models(self) -> bool:
        return self.models is not UserKind.models


@dataclass(frozen=True)
class RewardKind:
    """`score` gives the reward of a finished dialogue, in 0..1, or None where it cannot be scored; its second argument is the own section.

    It is never asked of a dialogue that failed, nor, with reward.format_gate, of one that broke the format.
    """

    score: Callable[[Dialogue, Any], float | None]
    parameters: type[Section] | None = None


@dataclass(frozen=True)
class AlgorithmKind:
    """`trainer` gives a kind of DialogueTrainer. Its `update` holds the sections `train`, `reward` and `policy`, and as `own` the algorithm's."""

    trainer: Callable[[], Any]
    parameters: type[Section] | None = None


@dataclass(frozen=True)
class ModelSource:
    """`folder` gives the place of the model of a name on this machine: a Hugging Face folder, fetched if need be. Raises ValueError, OSError.

    The second argument is the own section, for `base.kind: NAME`; None for a model that is written NAME:MODEL.
    """

    folder: Callable[[str, Any], Path]
    parameters: type[Section] | None = None
