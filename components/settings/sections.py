"""The sections of params.yaml, each with what must hold inside it. `Settings` joins them (components/settings/settings.py).

No number has a Python default: a parameter that is missing from the files is an error, so params.yaml is always the whole truth. Choices that came
later have one, such as `simulator.speaker`: with it they are not in the digest, which is that of before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.kinds import Section as Section
from rlver.components.domain.kinds import Wanted, own_section
from rlver.components.domain.registry import APPRAISERS, MODELS, SIMULATORS, SPEAKERS, Registry
from rlver.components.endpoint.address import check_base_url
from rlver.components.users.llm.kind import LLMUserSection
from rlver.components.users.together import Part, parts

TINY = "tiny"  # base.kind: no source of models, but made here from nothing


def _written(registry: Registry) -> Callable[[str], str]:
    """Checks the name in NAME:WHICH. Raises UnknownKind."""

    def check(written: str) -> str:
        registry.check(written.partition(":")[0])
        return written

    return check


Difficulty = Literal["vanilla", "challenging"]


class PersonaSettings(Section):
    train: int = Field(ge=8)
    test: int = Field(ge=8)
    imported_train: str | None
    imported_test: str | None


class SimulatorSettings(Section):
    kind: Annotated[str, AfterValidator(SIMULATORS.check)]
    appraiser: Annotated[str, AfterValidator(_written(APPRAISERS))] | None
    speaker: Annotated[str, AfterValidator(_written(SPEAKERS))] | None = Field(default=None, exclude_if=lambda name: name is None)
    difficulty: Difficulty
    emotion_start: int = Field(ge=0, le=100)
    emotion_ceiling: int = Field(ge=1, le=100)
    emotion_floor: int = Field(ge=0, le=99)
    max_turns: int = Field(ge=1)
    llm: LLMUserSection

    @property
    def rules(self) -> EmotionRules:
        return EmotionRules(self.emotion_start, self.emotion_ceiling, self.emotion_floor, self.max_turns)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Who plays the users."""
        return parts(self.kind, self.appraiser, self.speaker)

    @property
    def models(self) -> list[str]:
        """Those that a chat endpoint is asked for; empty where nobody is asked."""
        return [model for part in self.parts for model in part.kind.models(own_section(self, part.name))]

    def wanted(self, name: str, difficulty: str | None = None, endpoint: Any = None) -> Wanted:
        """What a user of the kind `name` is made from."""
        return Wanted(difficulty or self.difficulty, self.emotion_start, parameters=own_section(self, name), endpoint=endpoint)

    @model_validator(mode="after")
    def _the_kinds_are_known_and_complete(self) -> SimulatorSettings:
        """Raises what a kind raises of itself: a half that it does not have, a folder or a model that is not named."""
        for part in self.parts:
            part.kind.folder(part.which)
            if part.which and part.kind.written == "[:DIFFICULTY]" and part.which not in get_args(Difficulty):
                raise ValueError(f"unknown difficulty {part.which!r} of {part.name!r}: choose {' or '.join(get_args(Difficulty))}")
        _ = self.models
        return self

    @model_validator(mode="after")
    def _start_between_floor_and_ceiling(self) -> SimulatorSettings:
        if not self.emotion_floor <= self.emotion_start < self.emotion_ceiling:
            raise ValueError("emotion_floor <= emotion_start < emotion_ceiling must hold")
        return self


class BaseSettings(Section):
    kind: Annotated[str, AfterValidator(lambda kind: kind if kind == TINY else MODELS.check(kind))]
    model: str | None
    hidden_size: int = Field(ge=16)
    layers: int = Field(ge=1)
    heads: int = Field(ge=1)
    vocab_size: int = Field(ge=300)
    dialogues: int = Field(ge=1)
    single_replies: int = Field(ge=1)
    teaching_share: float = Field(ge=0, lt=1)
    teaching_follow_share: float = Field(ge=0, le=1)
    world_rounds: int = Field(ge=0)
    follow_share: float = Field(ge=0, le=1)
    direct_share: float = Field(ge=0, le=1)
    learning_rate: float = Field(gt=0)
    batch_tokens: int = Field(ge=256)
    max_seconds: float = Field(ge=0)

    @model_validator(mode="after")
    def _holds_together(self) -> BaseSettings:
        if self.kind == TINY and round(self.dialogues * self.teaching_share) >= self.dialogues:
            raise ValueError(
                f"teaching_share {self.teaching_share:g} of {self.dialogues} dialogues leaves none for the habits of the base; lower it"
            )
        if self.kind != TINY and not self.model:
            raise ValueError(f"base.kind is {self.kind}, so base.model must name a folder or a hub model")
        if self.kind != TINY and str(self.model).startswith(("openai:", "vllm:")):
            raise ValueError(
                "base.model is a chat endpoint, which gives text and no tokens: it can be scored (`rlver converse --policy`), not trained; "
                "name a folder or a hub model"
            )
        if self.hidden_size % self.heads:
            raise ValueError("base.hidden_size must be divisible by base.heads")
        return self


class RolloutSettings(Section):
    sampler: Literal["transformers", "vllm"]
    push: Literal["merged", "adapters"] = Field(default="merged", exclude_if=lambda what: what == "merged")
    server_gpus: str | None = Field(default=None, pattern=r"^[0-9]+(,[0-9]+)*$", exclude_if=lambda gpus: gpus is None)
    server_memory_share: float | None = Field(default=None, gt=0, le=1, exclude_if=lambda share: share is None)
    concurrency: int = Field(ge=1)
    max_failure_rate: float = Field(ge=0, le=1)
    max_logprob_gap: float = Field(gt=0)


_ALONE = BeforeValidator(lambda name: [name] if isinstance(name, str) else name)


class WarmupSettings(Section):
    """What a pretrained model is shown before reinforcement learning."""

    dialogues: list[Annotated[list[str], _ALONE, Field(min_length=1)]] = Field(min_length=1)  # collections; those of an inner list at once
    at_most: int = Field(default=0, ge=0, exclude_if=lambda count: count == 0)  # dialogues of each collection, drawn by seed; 0: all
    rounds: int = Field(ge=1)
    good_only: bool
    learning_rate: float = Field(gt=0)
    trained_layers: int = Field(default=0, ge=0, exclude_if=lambda layers: layers == 0)  # so many uppermost ones; 0: all
    batch_tokens: int = Field(ge=256)


class EvaluationSettings(Section):
    temperature: float = Field(ge=0)
    concurrency: int = Field(ge=1)
    repeats: int = Field(ge=1)
    bootstrap_samples: int = Field(ge=100)


class BenchmarkSettings(Section):
    """`base_url` (null: RLVER_POLICY_URL) and `served_model` (null: the folder's path, as vLLM names it) are of local-completions."""

    backend: Literal["hf", "local-completions", "vllm"] = "hf"
    base_url: str | None = None
    served_model: str | None = None
    tasks: list[str] = Field(min_length=1)
    limit: int | None = Field(ge=1)
    margin: float = Field(gt=0)
    batch_size: int = Field(ge=1)
    run_model_code: bool

    @model_validator(mode="after")
    def _server_is_one(self) -> Self:
        named = [name for name in ("base_url", "served_model") if getattr(self, name) is not None]
        if named and self.backend != "local-completions":
            raise ValueError(f"benchmark.{named[0]} is for benchmark.backend: local-completions, not {self.backend}")
        if self.base_url is not None:
            check_base_url(self.base_url)
        return self


class PromotionSettings(Section):
    """What a champion may have lost to the original base. `skill_kept`: share of the skill above chance that must be left, for shares of
    right answers; `margins`: for other metrics, by name."""

    skill_kept: float = Field(gt=0, lt=1)
    margins: dict[str, Annotated[float, Field(gt=0)]]


class TrackingSettings(Section):
    log_models: Literal["full", "reference"]
    traces: int = Field(ge=0)
