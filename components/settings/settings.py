"""The frozen mirror of params.yaml (its sections: components/settings/sections.py) with the overlays of a variant on top (components/settings/overlays.py).

Functions of the method take the values they use, never a `Settings`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, create_model, model_validator

from rlver.components.domain.registry import ALGORITHMS, APPRAISERS, MODELS, REWARDS, SIMULATORS, SPEAKERS, Registry, UnknownKind
from rlver.components.endpoint.parameters import EndpointSettings
from rlver.components.policy.section import PolicySettings
from rlver.components.settings.overlays import SettingsError as SettingsError
from rlver.components.settings.overlays import overlaid, overlays_of, read_parameters, with_overlays
from rlver.components.settings.sections import (
    BaseSettings,
    BenchmarkSettings,
    EvaluationSettings,
    PersonaSettings,
    PromotionSettings,
    RolloutSettings,
    Section,
    SimulatorSettings,
    TrackingSettings,
    WarmupSettings,
)
from rlver.components.settings.study_sections import AuditParameters, AuthoringSettings, BlindSettings, DistilParameters, JudgeSettings
from rlver.components.training.section import RewardSettings, TrainSettings


class Settings(Section):
    """All parameters of one variant."""

    seed: int = Field(ge=0)
    personas: PersonaSettings
    simulator: SimulatorSettings
    base: BaseSettings
    policy: PolicySettings
    rollout: RolloutSettings
    reward: RewardSettings
    train: TrainSettings
    evaluation: EvaluationSettings
    audit: AuditParameters
    benchmark: BenchmarkSettings
    promotion: PromotionSettings
    blind: BlindSettings
    endpoint: EndpointSettings
    authoring: AuthoringSettings
    judge: JudgeSettings
    distil: DistilParameters
    tracking: TrackingSettings
    warmup: WarmupSettings

    @model_validator(mode="after")
    def _the_sections_fit(self) -> Settings:
        if self.reward.dense and self.train.algorithm != "ppo":
            raise ValueError("reward.dense goes with train.algorithm: ppo; grpo does the same with train.credit: turn")
        if self.rollout.sampler == "vllm" and self.train.processes > 1:
            raise ValueError(f"rollout.sampler: vllm goes with train.processes: 1, got {self.train.processes}; use transformers")
        others = {"policy": self.policy, "rollout": self.rollout, "reward": self.reward, "simulator": self.simulator}
        if problem := self.train.refusal(others):
            raise ValueError(problem)
        if self.policy.thinking and self.policy.thoughts == "strip" and self.train.loss_type != "grpo":
            raise ValueError("policy.thoughts: strip needs train.loss_type: grpo, in which every dialogue counts once")
        return self

    @property
    def pushed_rank(self) -> int:
        """The rank of the adapters that the server of a training gets alone; 0: it gets all weights."""
        return self.train.lora_rank if self.rollout.sampler == "vllm" and self.rollout.push == "adapters" else 0

    def require_trainable(self) -> None:
        """Raise SettingsError for what a policy can be evaluated with, but not trained."""
        if self.policy.temperature == 0:
            raise SettingsError(
                "policy.temperature is 0: a policy that always says the same learns nothing; set one above 0 (that of the benchmark is "
                "evaluation.temperature)"
            )
        if self.policy.top_p < 1:
            raise SettingsError(
                f"policy.top_p is {self.policy.top_p}: what it leaves out is sampled with one distribution and trained with another; "
                "train with 1.0"
            )
        left = self.personas.train - self.train.evaluation_personas
        if not self.personas.imported_train and left < self.train.personas_per_step:
            raise SettingsError(
                f"personas.train less train.evaluation_personas leaves {left} to learn from, fewer than train.personas_per_step = "
                f"{self.train.personas_per_step}; raise the first or lower one of the others"
            )

    def require_trainable_in(self, processes: int) -> None:
        """Raise SettingsError for what one process alone can do: torchrun may have started more than train.processes says."""
        train = self.train
        of_one = {
            "rollout.sampler: vllm": self.rollout.sampler == "vllm",
            "train.max_staleness: 1": train.max_staleness > 0,
            "train.keep: best": train.keep == "best",
            f"train.engine: {train.engine}": train.engine != "own",
        }
        if processes > 1 and any(of_one.values()):
            name = next(name for name, is_chosen in of_one.items() if is_chosen)
            raise SettingsError(f"{name} goes with one process; start it without torchrun, or set another value")

    def digest(self) -> str:
        """Twelve hex digits that change when any parameter changes."""
        return digest_of(self.model_dump(mode="json"))


# Where kinds are chosen: the section, the keys that name them, and who may be named there.
_CHOSEN = (
    ("simulator", ("kind", "appraiser", "speaker"), (SIMULATORS, APPRAISERS, SPEAKERS)),
    ("base", ("kind",), (MODELS,)),
    ("reward", ("kind",), (REWARDS,)),
    ("train", ("algorithm",), (ALGORITHMS,)),
)


def read_settings(values: Mapping[str, Any]) -> Settings:
    """The settings of these values; a kind that is chosen, or has a section in them, reads its own section. Raises ValidationError, UnknownKind."""
    changed: dict[str, Any] = {}
    for section, keys, registries in _CHOSEN:
        given, declared = values.get(section), _class_of(section)
        if not isinstance(given, Mapping):
            continue
        named = [*(given.get(key) for key in keys), *(key for key in given if key not in declared.model_fields)]
        names = dict.fromkeys(name.partition(":")[0] for name in named if isinstance(name, str))
        brought: dict[str, Any] = {name: (cls, ...) for name in names if (cls := _brought(section, name, registries))}
        if brought:
            changed[section] = (create_model(declared.__name__, __base__=declared, **brought), ...)
    kind: type[Settings] = create_model("Settings", __base__=Settings, **changed) if changed else Settings
    return kind.model_validate(values)


def _class_of(section: str) -> type[Section]:
    declared = Settings.model_fields[section].annotation
    assert isinstance(declared, type) and issubclass(declared, Section)
    return declared


def _brought(section: str, name: str, registries: Sequence[Registry]) -> type[Section] | None:
    """The class of the section that a kind of this name brings, unless it is declared here; None where it brings none."""
    classes: set[type[Section]] = {cls for registry in registries if registry.has(name) if (cls := registry.parameters(name)) is not None}
    field = _class_of(section).model_fields.get(name)
    if not classes or (field is not None and classes == {field.annotation}):
        return None
    cls, *others = classes
    if field is not None or others or not issubclass(cls, Section):
        other = "stands for two kinds with other sections" if others else "has no Section as parameters"
        why = other if field is None else "is a parameter's"
        raise UnknownKind(f"{section}.{name}: the name of a kind that brings parameters, and it {why}")
    return cls


def digest_of(value: Any) -> str:
    """Twelve hex digits of the canonical JSON of `value`."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def load_settings(params_path: Path, variant: str | None = None, *, seed: int | None = None, difficulty: str | None = None) -> Settings:
    """Read `params_path` and, if a variant is named, put its overlays from the folder `params` beside it on top.

    `seed` and `difficulty` (of the benchmark's user) replace what the files say.

    Raises SettingsError, in one line, for a missing file, broken YAML, an unknown key, a missing key or a wrong type.
    """
    values = read_parameters(params_path)
    where = params_path.name
    if variant is not None:
        overlays = overlays_of(params_path.parent / "params", variant)
        values = with_overlays(values, overlays)
        where = f"{where} with {', '.join(overlays)}"
    if seed is not None:
        values = overlaid(values, {"seed": seed}, "--seed")
    if difficulty is not None:
        values = overlaid(values, {"simulator": {"difficulty": difficulty}}, "--difficulty")
    try:
        return read_settings(values)
    except UnknownKind as error:
        raise SettingsError(f"{where}: {error}") from error
    except ValidationError as error:
        found = error.errors()
        first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])  # a misspelt key is missing elsewhere too
        key = ".".join(str(part) for part in first["loc"]) or "settings"
        got = "" if first["type"] == "missing" else f", got {first.get('input')!r}"
        raise SettingsError(f"{where}: {key}: {first['msg']}{got if first['loc'] else ''}") from error


def with_simulator(settings: Settings, simulator: str | None, difficulty: str | None, appraiser: str | None = None) -> Settings:
    """The settings with another user, who plays alone, or another appraiser. Raises SettingsError's kin, ValueError, for one that does not exist."""
    named = (("kind", simulator), ("difficulty", difficulty), ("appraiser", appraiser))
    chosen = {name: value for name, value in named if value is not None}
    values = settings.model_dump()
    values["simulator"] |= ({} if simulator is None else {"appraiser": None, "speaker": None}) | chosen
    try:
        return read_settings(values)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "literal_error":
            raise ValueError(f"there is no {first['loc'][-1]} {first.get('input')!r}: {first['msg']}") from error
        raised = first.get("ctx", {}).get("error")
        if isinstance(raised, UnknownKind):
            raise raised from None
        raise ValueError(f"simulator: {first['msg'].removeprefix('Value error, ')}, in params.yaml or in the --variant") from error
