"""Time of a GRPO step against TRL's own: `python -m benchmarks.train_step [--model models/base] [--steps 3]`.

Ours is the trainer of the `train` stage. The baseline is an untouched `GRPOTrainer` with the plainest rollout_func: turns in lock-step,
`model.generate` on the whole conversation so far. Same weights, personas, user, group sizes and micro-batches, in turns in one
process; medians are compared. `update` is the step less its rollouts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from rlver.components.domain.emotion import emotion_reward
from rlver.components.domain.persona import Persona
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.load import load_policy
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.policy.token_policy import TokenPolicy
from rlver.components.rollout.episode import Job, Rollout, run_episodes
from rlver.components.settings.settings import Settings, load_settings
from rlver.components.training.build import build_trainer
from rlver.components.training.section import UpdateParameters
from rlver.tasks.runtime.assembly import Conversation, conversation


@dataclass
class GenerateSampler:
    """Waits until every open dialogue asks, then one `model.generate` over their whole contexts, padded on the left."""

    model: Any
    end_of_turn: int
    open_dialogues: int
    _waiting: list[tuple[SampleRequest, asyncio.Future[Sample]]] = field(default_factory=list)

    def start(self) -> None:
        self._waiting.clear()

    async def sample(self, request: SampleRequest) -> Sample:
        answer: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        self._answer_if_complete()
        return await answer

    async def close(self) -> None:
        """Nothing is kept open."""

    def forget(self, dialogue_id: str) -> None:
        self.open_dialogues -= 1
        self._answer_if_complete()

    def _answer_if_complete(self) -> None:
        if self._waiting and len(self._waiting) == self.open_dialogues:
            waiting, self._waiting = self._waiting, []
            for (_, answer), sample in zip(waiting, self._generate([request for request, _ in waiting]), strict=True):
                answer.set_result(sample)

    @torch.no_grad()
    def _generate(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        width = max(len(request.context_ids) for request in requests)
        ids = torch.tensor([[self.end_of_turn] * (width - len(r.context_ids)) + list(r.context_ids) for r in requests])
        real = torch.tensor([[0] * (width - len(r.context_ids)) + [1] * len(r.context_ids) for r in requests])
        self.model.eval()
        said = self.model.generate(
            ids, attention_mask=real, do_sample=True, temperature=1.0, top_k=0, max_new_tokens=requests[0].max_tokens,
            eos_token_id=self.end_of_turn, pad_token_id=self.end_of_turn,
        )[:, width:].tolist()  # fmt: skip
        self.model.train()
        samples = []
        for row in said:
            end = row.index(self.end_of_turn) + 1 if self.end_of_turn in row else len(row)
            samples.append(Sample(tuple(row[:end]), (0.0,) * end, self.end_of_turn in row))
        return samples


class Clock(TrainerCallback):
    """Seconds of each step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._began = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds.append(time.perf_counter() - self._began)


class RollsOut(Protocol):
    def roll_out(self, persona_ids: Sequence[str], step: int) -> list[Rollout]: ...


@dataclass
class Side:
    """One of the two: a talk, and what its steps and rollouts took."""

    talk: Conversation
    personas: dict[str, Persona]
    steps: list[float] = field(default_factory=list)
    rollouts: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def roll_out(self, persona_ids: Sequence[str], step: int) -> list[Rollout]:
        began = time.perf_counter()
        jobs = [Job(f"{step}/{number}", self.personas[persona_id], step) for number, persona_id in enumerate(persona_ids)]
        talk = self.talk
        if isinstance(talk.policy, TokenPolicy) and isinstance(talk.policy.sampler, GenerateSampler):
            talk.policy.sampler.open_dialogues = len(jobs)
        talk.policy.start()
        held = asyncio.run(run_episodes(jobs, talk.simulator, talk.policy, talk.rules, len(jobs)))
        self.rollouts.append(time.perf_counter() - began)
        self.tokens.append(sum(len(rollout.completion_ids) for rollout in held))
        return held


def ours(settings: Settings, model: Any, tokenizer: Any, order: list[str], side: RollsOut, folder: Path, steps: int) -> Any:
    train = settings.train.model_copy(update={"steps": steps, "save_every": 10**6})
    reward = settings.reward.model_copy(update={"dense": False, "format_gate": True, "cut_off_penalty": 0.0})
    policy = settings.policy.model_copy(update={"temperature": 1.0, "precision": "float32"})
    parameters = UpdateParameters(train, reward, policy, settings.simulator.max_turns, settings.seed)
    return build_trainer(model, tokenizer, order, parameters, folder, _score, side.roll_out, [])


def stock(settings: Settings, model: Any, tokenizer: Any, order: list[str], side: Side, folder: Path, steps: int) -> Any:
    train = settings.train
    rows = train.personas_per_step * train.group_size
    forwards = rows // train.rows_per_forward

    def rollout_func(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        held = side.roll_out([prompt[0]["content"] for prompt in prompts], len(side.rollouts))
        return {
            "prompt_ids": [list(rollout.prompt_ids) for rollout in held],
            "completion_ids": [list(rollout.completion_ids) for rollout in held],
            "logprobs": [list(rollout.logprob_T) for rollout in held],
            "env_mask": [[int(policy) for policy in rollout.is_policy_T] for rollout in held],
            "emotion": [_score(rollout) for rollout in held],
        }

    def reward(prompts: Any, completions: Any, emotion: list[float | None], **_: Any) -> list[float | None]:
        return emotion

    config = GRPOConfig(
        output_dir=str(folder), use_cpu=not torch.cuda.is_available(), bf16=torch.cuda.is_available(), gradient_checkpointing=False,
        per_device_train_batch_size=train.rows_per_forward, gradient_accumulation_steps=forwards, steps_per_generation=forwards,
        num_generations=train.group_size, max_steps=steps, shuffle_dataset=False, learning_rate=train.learning_rate,
        lr_scheduler_type="constant", max_grad_norm=train.max_grad_norm, beta=train.beta, loss_type=train.loss_type,
        scale_rewards=train.scale_rewards, epsilon=train.epsilon, epsilon_high=train.epsilon_high, temperature=1.0, report_to=[],
        disable_tqdm=True, save_strategy="no", logging_steps=1, seed=settings.seed, dataloader_pin_memory=False,
    )  # fmt: skip
    return GRPOTrainer(
        model=model, processing_class=tokenizer, args=config, reward_funcs=[reward], rollout_func=rollout_func,
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": persona_id}]} for persona_id in order]),
    )  # fmt: skip


def _score(rollout: Rollout) -> float | None:
    return emotion_reward(rollout.dialogue, rollout.well_formed, True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("models/base"))
    parser.add_argument("--steps", type=int, default=3, help="of each side")
    arguments = parser.parse_args()
    settings = load_settings(Path("params.yaml"), "grpo-think")
    personas = {p.persona_id: p for p in compose_personas(load_library(), train=100, test=8, seed=settings.seed)[0]}
    order = list(personas)[: settings.train.personas_per_step]
    sides: dict[str, Side] = {}
    for number in range(arguments.steps):
        for name, build in (("ours", ours), ("stock TRL", stock)):
            model, tokenizer = load_policy(arguments.model)
            talk = conversation(settings, name, model, tokenizer, settings.rollout.concurrency)
            if name != "ours":
                assert isinstance(talk.policy, TokenPolicy)
                talk = replace(talk, policy=replace(talk.policy, sampler=GenerateSampler(model, tokenizer.eos_token_id, 0)))
            side = sides.setdefault(name, Side(talk, personas))
            side.talk, clock = talk, Clock()
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
                trainer = build(settings, model, tokenizer, order, side, Path(folder), steps=1)
                trainer.add_callback(clock)
                trainer.train()
            side.steps += clock.seconds
            print(f"{number + 1}/{arguments.steps} {name}: step {side.steps[-1]:.1f} s, rollouts {side.rollouts[-1]:.1f} s", flush=True)
    rows = settings.train.personas_per_step * settings.train.group_size
    print(f"{rows} dialogues a step, {median(sides['ours'].tokens)} and {median(sides['stock TRL'].tokens)} tokens")
    print(_compared("step", sides["ours"].steps, sides["stock TRL"].steps))
    print(_compared("rollouts", sides["ours"].rollouts, sides["stock TRL"].rollouts))
    update = {name: [s - r for s, r in zip(side.steps, side.rollouts, strict=True)] for name, side in sides.items()}
    print(_compared("update", update["ours"], update["stock TRL"]))


def _compared(what: str, ours: Sequence[float], stock: Sequence[float]) -> str:
    return f"{what}: ours {median(ours):.2f} s, stock TRL {median(stock):.2f} s, ratio {median(ours) / median(stock):.2f}"


if __name__ == "__main__":
    main()
