"""Training runs of two steps: real dialogues, real scripted user, a model of one layer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import people
from micro import micro_model, micro_tokenizer
from transformers import TrainerCallback

from rlver.components.domain.emotion import EmotionRules, emotion_reward
from rlver.components.domain.protocols import Simulator
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.precision import computes_in_bfloat16, hold_in_bfloat16
from rlver.components.policy.token_policy import Speaking, TokenPolicy
from rlver.components.policy.transformers_sampler import TransformersSampler
from rlver.components.rollout.episode import Job, Rollout, run_episodes
from rlver.components.settings.settings import load_settings
from rlver.components.training.build import build_trainer
from rlver.components.training.curves import CurveFile
from rlver.components.training.dialogue_trainer import DialogueTrainer
from rlver.components.training.section import UpdateParameters
from rlver.components.training.watch import TrainingLimits, TrainingWatch, measure
from rlver.components.users.scripted.simulator import ScriptedSimulator

RULES = EmotionRules(max_turns=3)
SPEAKING = Speaking("micro", thinking=False, strip_thoughts=False, max_reply_tokens=6, max_context_tokens=900)
SMALL: dict[str, Any] = {
    "credit": "turn", "steps": 2, "personas_per_step": 2, "group_size": 2, "rows_per_forward": 2, "learning_rate": 1e-2, "warmup_steps": 0,
    "scale_rewards": "batch", "updates_per_batch": 1, "save_every": 1, "temperature": 1.0, "precision": "float32", "beta": 0.0, "loss_type": "grpo",
    "learning_rate_schedule": "constant", "max_grad_norm": 1.0, "dense": False, "format_gate": False, "cut_off_penalty": 0.0, "max_reply_tokens": 6,
}  # fmt: skip
LIMITS = TrainingLimits(0.0, 1.0, 1.0, 0.05)
PERSONAS = {persona.persona_id: persona for persona in people()[0]}
ORDER = list(PERSONAS)[:4]


def changed(parameters: UpdateParameters, **values: Any) -> UpdateParameters:
    """The parameters with these values, each in the section that has it; they are not validated."""
    sections = {name: getattr(parameters, name) for name in ("train", "reward", "policy")}
    own = {name: values.keys() & type(section).model_fields.keys() for name, section in sections.items()}
    assert values.keys() == set().union(*own.values()), values
    updated = {name: section.model_copy(update={key: values[key] for key in own[name]}) for name, section in sections.items()}
    return replace(parameters, **updated)


GIVEN = load_settings(Path(__file__).parents[1] / "params.yaml")
PARAMETERS = changed(UpdateParameters(GIVEN.train, GIVEN.reward, GIVEN.policy, RULES.max_turns, seed=3), **SMALL)


class StopAtSave(TrainerCallback):
    """Ctrl-C just after the checkpoint of a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            raise KeyboardInterrupt


@dataclass
class Run:
    """A trainer with everything around it that a test looks at."""

    trainer: DialogueTrainer
    model: Any
    rollouts: list[list[Rollout]]
    batches: list[dict[str, Any]]
    steps: CurveFile
    checks: list[int]
    shown: list[str]

    @property
    def weights(self) -> torch.Tensor:
        return torch.cat([weight.detach().flatten() for weight in self.model.parameters()])


def prepared(
    folder: Path,
    parameters: UpdateParameters = PARAMETERS,
    simulator: Simulator | None = None,
    callbacks: Sequence[Any] = (),
    speaking: Speaking = SPEAKING,
    rules: EmotionRules = RULES,
    score: Callable[[Rollout], float | None] = lambda rollout: emotion_reward(rollout.dialogue, rollout.well_formed, format_gate=False),
    limits: TrainingLimits = LIMITS,
) -> Run:
    tokenizer, model = micro_tokenizer(), micro_model(scale=2.0)
    if computes_in_bfloat16(parameters.train.frozen_precision):
        hold_in_bfloat16(model)
    sampler = TransformersSampler(model, tokenizer.eos_token_id, 1.0, 1.0, rows=8, capacity=900)
    chat = ChatFormat(tokenizer, "Be kind.")
    held: list[list[Rollout]] = []
    checks: list[int] = []
    shown: list[str] = []

    def rollouts(persona_ids: Sequence[str], step: int) -> list[Rollout]:
        jobs = [Job(f"step{step}/{index}", PERSONAS[persona_id], step) for index, persona_id in enumerate(persona_ids)]
        sampler.start()
        user = simulator or ScriptedSimulator("vanilla")
        held.append(asyncio.run(run_episodes(jobs, user, TokenPolicy(sampler, chat, speaking), rules, concurrency=8)))
        return held[-1]

    def check(step: int) -> dict[str, float]:
        checks.append(step)
        return measure([])

    steps = CurveFile(folder / "train")
    watch = TrainingWatch(
        steps,
        CurveFile(folder / "evaluation"),
        lambda: measure(held[-1]),
        check,
        evaluate_every=2,
        limits=limits,
        show=shown.append,
        thinking=speaking.thinking,
    )
    order = ORDER[: parameters.train.steps * parameters.train.personas_per_step]
    trainer = build_trainer(
        model, tokenizer, order, parameters, folder / "checkpoints", score=score, rollouts=rollouts, callbacks=[watch, *callbacks]
    )
    batches: list[dict[str, Any]] = []
    generate = trainer._generate_and_score_completions

    def generate_and_keep(inputs: Any) -> dict[str, Any]:
        batches.append(generate(inputs))
        return batches[-1]

    trainer._generate_and_score_completions = generate_and_keep  # type: ignore[method-assign]
    return Run(trainer, model, held, batches, steps, checks, shown)


def whole_and_resumed(folder: Path, parameters: UpdateParameters) -> tuple[Run, Run]:
    """A training that was not disturbed, and the same one interrupted after its first checkpoint, from which it went on."""
    whole = prepared(folder / "whole", parameters)
    whole.trainer.train()
    with pytest.raises(KeyboardInterrupt):
        prepared(folder / "cut", parameters, callbacks=[StopAtSave(1)]).trainer.train()
    again = prepared(folder / "cut", parameters)
    again.trainer.train(resume_from_checkpoint=str(folder / "cut" / "checkpoints" / "checkpoint-1"))
    return whole, again
