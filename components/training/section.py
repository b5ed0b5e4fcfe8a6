"""The sections `reward` and `train` of params.yaml, and what a trainer is made from: they themselves, no copy of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from rlver.components.domain.kinds import Section, own_section
from rlver.components.domain.registry import ALGORITHMS, REWARDS
from rlver.components.policy.section import PolicySettings
from rlver.components.training.engines import Engine, refusal

VERL_PYTHON, VERL_RECIPE = ".venv-verl/bin/python", "recipes/verl"


class RewardSettings(Section):
    kind: Annotated[str, AfterValidator(REWARDS.check)] = Field(default="emotion", exclude_if=lambda kind: kind == "emotion")
    format_gate: bool
    dense: bool
    cut_off_penalty: float = Field(ge=0, le=1)

    def gates_format(self, thinking: bool) -> bool:
        """Whether a dialogue with a malformed turn is worth 0 in training."""
        return self.format_gate and thinking


class TrainSettings(Section):
    engine: Engine = Field(default="own", exclude_if=lambda engine: engine == "own")
    algorithm: Annotated[str, AfterValidator(ALGORITHMS.check)]
    credit: Literal["dialogue", "turn", "state", "mica"]
    gamma: float = Field(ge=0, le=1)
    gae_lambda: float = Field(ge=0, le=1)
    gae_level: Literal["token", "turn"]
    critic: Literal["shared", "separate"]
    critic_sees_emotion: bool = Field(default=False, exclude_if=lambda sees: not sees)
    critic_learning_rate: float = Field(gt=0)
    value_weight: float = Field(ge=0)
    value_clip: float = Field(ge=0)
    difficulties: list[Literal["vanilla", "challenging"]] = Field(min_length=1)
    curriculum: Literal["none", "staged", "adaptive"]
    curriculum_low: float = Field(ge=0, le=100)
    curriculum_high: float = Field(ge=0, le=100)
    steps: int = Field(ge=1)
    personas_per_step: int = Field(ge=1)
    group_size: int = Field(ge=1)
    learning_rate: float = Field(gt=0)
    learning_rate_schedule: Literal["constant", "linear"]
    warmup_steps: int = Field(ge=0)
    epsilon: float = Field(gt=0)
    epsilon_high: float = Field(gt=0)
    ratio_cap: float = Field(default=4.0, gt=1, exclude_if=lambda cap: cap == 4.0)
    beta: float = Field(ge=0)
    loss_type: Literal["dapo", "dr_grpo", "grpo"]
    scale_rewards: Literal["group", "batch", "none"]
    updates_per_batch: int = Field(ge=1)
    rows_per_forward: int = Field(ge=1)
    max_grad_norm: float = Field(gt=0)
    lora_rank: int = Field(ge=0)
    frozen_precision: Literal["float32", "native"] = Field(default="float32", exclude_if=lambda precision: precision == "float32")
    trained_layers: int = Field(default=0, ge=0, exclude_if=lambda layers: layers == 0)
    max_turns: int | None = Field(default=None, ge=1, exclude_if=lambda turns: turns is None)
    max_staleness: Literal[0, 1] = Field(default=0, exclude_if=lambda steps: steps == 0)
    gradient_checkpointing: bool
    min_entropy: float = Field(ge=0)
    max_repeat_rate: float = Field(ge=0, le=1)
    max_cut_off_rate: float = Field(ge=0, le=1)
    processes: int = Field(ge=1)
    save_every: int = Field(ge=1)
    checkpoint_optimizer: bool = Field(default=True, exclude_if=lambda kept: kept)
    evaluate_every: int = Field(ge=1)
    evaluation_personas: int = Field(ge=1)
    keep: Literal["last", "best"] = Field(default="last", exclude_if=lambda keep: keep == "last")
    verl_python: str = Field(default=VERL_PYTHON, exclude_if=lambda path: path == VERL_PYTHON)
    verl_recipe: str = Field(default=VERL_RECIPE, exclude_if=lambda path: path == VERL_RECIPE)
    verl_gpus: int = Field(default=8, ge=1, exclude_if=lambda gpus: gpus == 8)
    verl_nodes: int = Field(default=1, ge=1, exclude_if=lambda nodes: nodes == 1)

    def refusal(self, others: Mapping[str, Any]) -> str | None:
        """What the engine cannot do of this section and of `others`, by name, in one line; None where it can do all."""
        return refusal(self.engine, {"train": self, **others})

    @model_validator(mode="after")
    def _batch_divides(self) -> TrainSettings:
        if self.personas_per_step * self.group_size % (self.rows_per_forward * self.processes):
            raise ValueError("personas_per_step x group_size must be divisible by rows_per_forward x processes")
        if (len(self.difficulties) == 1) is not (self.curriculum == "none"):
            raise ValueError(
                f"curriculum: {self.curriculum} does not go with {len(self.difficulties)} difficulties: none needs 1, others 2"
            )
        if self.curriculum == "adaptive" and (len(self.difficulties) != 2 or self.curriculum_low >= self.curriculum_high):
            raise ValueError("curriculum: adaptive needs two difficulties and curriculum_low < curriculum_high")
        if self.max_staleness and (self.processes > 1 or self.curriculum == "adaptive"):
            raise ValueError("max_staleness: 1 goes with processes: 1 and a curriculum that is not adaptive")
        if self.ratio_cap <= 1 + self.epsilon_high:
            raise ValueError("ratio_cap must be above 1 + epsilon_high")
        if self.algorithm == "grpo" and self.group_size < 2:
            raise ValueError("algorithm: grpo compares dialogues of one persona, so group_size must be at least 2")
        if self.algorithm == "grpo" and self.gamma != 1 and self.credit not in ("turn", "state"):
            raise ValueError(
                f"gamma below 1 goes with algorithm: ppo or credit: turn or state; credit: {self.credit} pays the whole return"
            )
        if self.keep == "best" and self.processes > 1:
            raise ValueError("keep: best goes with processes: 1")
        if self.trained_layers and (self.lora_rank or self.algorithm == "ppo"):
            raise ValueError("trained_layers goes with algorithm: grpo and lora_rank: 0")
        if self.frozen_precision == "native" and not self.lora_rank:
            raise ValueError("frozen_precision: native goes with lora_rank above 0: without adapters the weights learn, in float32")
        if self.algorithm == "ppo" and self.personas_per_step * self.group_size % 2:
            raise ValueError("personas_per_step x group_size must be even")
        if self.algorithm == "grpo" and self.credit in ("turn", "state") and self.scale_rewards == "group":
            raise ValueError(f"credit: {self.credit} needs scale_rewards: batch or none")
        if self.algorithm == "grpo" and self.credit == "mica" and self.scale_rewards != "group":
            raise ValueError("credit: mica scales by the group: it needs scale_rewards: group")
        return self

    def update_arguments(self) -> dict[str, Any]:
        """What every engine's update takes, under TRL's names."""
        return {
            "learning_rate": self.learning_rate,
            "lr_scheduler_type": {"constant": "constant_with_warmup", "linear": "linear"}[self.learning_rate_schedule],
            "warmup_steps": self.warmup_steps,
            "max_grad_norm": self.max_grad_norm,
            "weight_decay": 0.0,
            "epsilon": self.epsilon,
            "epsilon_high": self.epsilon_high,
        }


@dataclass(frozen=True)
class UpdateParameters:
    """The sections that decide an update."""

    train: TrainSettings
    reward: RewardSettings
    policy: PolicySettings
    max_turns: int  # of a dialogue of the benchmark; one that is trained on may be shorter (train.max_turns)
    seed: int

    @property
    def own(self) -> Any:
        """The section that the algorithm brought, as its class has read it; None where it brought none."""
        return own_section(self.train, self.train.algorithm)

    @property
    def gates_format(self) -> bool:
        return self.reward.gates_format(self.policy.thinking)

    @property
    def most_tokens(self) -> int:
        """That the policy can say in a dialogue: the constant of loss_type dr_grpo."""
        return min(self.train.max_turns or self.max_turns, self.max_turns) * self.policy.max_reply_tokens
