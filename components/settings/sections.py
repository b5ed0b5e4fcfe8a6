"""The sections of params.yaml, each with what must hold inside it. `Settings` joins them (components/settings/settings.py).

No number has a Python default: a parameter that is missing from the files is an error, so params.yaml is always the whole truth.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rlver.components.domain.emotion import EmotionRules


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class PersonaSettings(Section):
    train: int = Field(ge=8)
    test: int = Field(ge=8)
    imported_train: str | None
    imported_test: str | None


class ModelSettings(Section):
    """A model behind a chat endpoint; None until a variant names one."""

    model: str | None
    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    max_tokens: int = Field(ge=1)


class LLMUserSettings(Section):
    appraiser: ModelSettings
    speaker: ModelSettings
    combined: bool
    max_repairs: int = Field(ge=0)
    max_quoted_characters: int = Field(ge=1)

    @model_validator(mode="after")
    def _one_call_is_one_model(self) -> LLMUserSettings:
        if self.combined and self.appraiser != self.speaker:
            raise ValueError("combined is one call to one model, so appraiser and speaker must have the same values")
        return self


class SimulatorSettings(Section):
    kind: Literal["scripted", "llm"]
    appraiser: str | None = Field(pattern=r"^distilled:.+")
    difficulty: Literal["vanilla", "challenging"]
    emotion_start: int = Field(ge=0, le=100)
    emotion_ceiling: int = Field(ge=1, le=100)
    emotion_floor: int = Field(ge=0, le=99)
    max_turns: int = Field(ge=1)
    llm: LLMUserSettings

    @property
    def rules(self) -> EmotionRules:
        return EmotionRules(self.emotion_start, self.emotion_ceiling, self.emotion_floor, self.max_turns)

    @model_validator(mode="after")
    def _an_llm_user_has_models(self) -> SimulatorSettings:
        if self.kind == "llm" and not (self.llm.appraiser.model and self.llm.speaker.model):
            raise ValueError("kind is llm, so llm.appraiser.model and llm.speaker.model must name models of the endpoint")
        return self

    @model_validator(mode="after")
    def _start_between_floor_and_ceiling(self) -> SimulatorSettings:
        if not self.emotion_floor <= self.emotion_start < self.emotion_ceiling:
            raise ValueError("emotion_floor <= emotion_start < emotion_ceiling must hold")
        return self


class BaseSettings(Section):
    kind: Literal["tiny", "model"]
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
    def _a_model_is_named(self) -> BaseSettings:
        if self.kind == "model" and not self.model:
            raise ValueError("base.kind is model, so base.model must name a folder or a hub model")
        if self.kind == "model" and str(self.model).startswith(("openai:", "vllm:")):
            raise ValueError(
                "base.model is a chat endpoint, which gives text and no tokens: it can be scored (`rlver converse --policy`), not trained; "
                "name a folder or a hub model"
            )
        if self.hidden_size % self.heads:
            raise ValueError("base.hidden_size must be divisible by base.heads")
        return self


class PolicySettings(Section):
    thinking: bool
    thoughts: Literal["keep", "strip"]
    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    max_reply_tokens: int = Field(ge=1)
    max_context_tokens: int = Field(ge=64)

    @model_validator(mode="after")
    def _a_reply_fits(self) -> PolicySettings:
        if self.max_reply_tokens >= self.max_context_tokens:
            raise ValueError("max_reply_tokens must be less than max_context_tokens")
        return self


class RolloutSettings(Section):
    sampler: Literal["transformers", "vllm"]
    concurrency: int = Field(ge=1)
    max_failure_rate: float = Field(ge=0, le=1)
    max_logprob_gap: float = Field(gt=0)


class RewardSettings(Section):
    format_gate: bool
    dense: bool


class TrainSettings(Section):
    algorithm: Literal["grpo", "ppo"]
    credit: Literal["dialogue", "turn"]
    gamma: float = Field(ge=0, le=1)
    gae_lambda: float = Field(ge=0, le=1)
    gae_level: Literal["token", "turn"]
    critic: Literal["shared", "separate"]
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
    beta: float = Field(ge=0)
    loss_type: Literal["dapo", "grpo"]
    scale_rewards: Literal["group", "batch", "none"]
    updates_per_batch: int = Field(ge=1)
    rows_per_forward: int = Field(ge=1)
    max_grad_norm: float = Field(gt=0)
    lora_rank: int = Field(ge=0)
    gradient_checkpointing: bool
    min_entropy: float = Field(ge=0)
    max_repeat_rate: float = Field(ge=0, le=1)
    max_cut_off_rate: float = Field(ge=0, le=1)
    processes: int = Field(ge=1)
    save_every: int = Field(ge=1)
    evaluate_every: int = Field(ge=1)
    evaluation_personas: int = Field(ge=1)

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
        if self.algorithm == "grpo" and self.group_size < 2:
            raise ValueError("algorithm: grpo compares dialogues of one persona, so group_size must be at least 2")
        if self.algorithm == "ppo" and self.lora_rank:
            raise ValueError("lora_rank goes with algorithm: grpo; a checkpoint of adapters does not hold ppo's critic")
        if self.algorithm == "ppo" and self.personas_per_step * self.group_size % 2:
            raise ValueError("personas_per_step x group_size must be even")
        if self.algorithm == "grpo" and self.credit == "turn" and self.scale_rewards == "group":
            raise ValueError("credit: turn needs scale_rewards: batch or none")
        return self


class EvaluationSettings(Section):
    temperature: float = Field(ge=0)
    concurrency: int = Field(ge=1)
    repeats: int = Field(ge=1)
    bootstrap_samples: int = Field(ge=100)


class BenchmarkSettings(Section):
    tasks: list[str] = Field(min_length=1)
    limit: int | None
    margin: float = Field(gt=0)
    batch_size: int = Field(ge=1)
    run_model_code: bool


class BlindSettings(Section):
    pairs: int = Field(ge=1)
    overlap: float = Field(ge=0, le=1)


class PriceSettings(Section):
    million_in: float = Field(ge=0)
    million_out: float = Field(ge=0)


class EndpointSettings(Section):
    concurrency: int = Field(ge=1)
    requests_per_minute: int | None = Field(gt=0)
    tokens_per_minute: int | None = Field(gt=0)
    connect_timeout_s: float = Field(gt=0)
    answer_timeout_s: float = Field(gt=0)
    attempts: int = Field(ge=1)
    backoff_first_s: float = Field(ge=0)
    backoff_most_s: float = Field(ge=0)
    retry_after_most_s: float = Field(ge=0)
    breaker_failures: int = Field(ge=1)
    breaker_cool_down_s: float = Field(ge=0)
    prices: dict[str, PriceSettings]
    budget: float | None = Field(ge=0)


class AuthoringSettings(Section):
    model: str | None
    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    scenario_max_tokens: int = Field(ge=1)
    persona_max_tokens: int = Field(ge=1)
    max_repairs: int = Field(ge=0)
    personas_per_scenario: Literal[1, 2, 4, 8]
    run_words: int = Field(ge=1)
    max_overlap: float = Field(ge=0, le=1)


class JudgeSettings(Section):
    model: str | None
    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    max_tokens: int = Field(ge=1)
    max_repairs: int = Field(ge=0)
    max_quoted_characters: int = Field(ge=1)


class TrackingSettings(Section):
    log_models: Literal["full", "reference"]
    traces: int = Field(ge=0)
