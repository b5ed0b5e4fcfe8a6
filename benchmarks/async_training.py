"""What one step of staleness buys a training whose users take 0.2 to 2 s to answer, and what it costs the learning.

    python -m benchmarks.async_training                 # seconds a step: synchronous and one step ahead, in the same run
    python -m benchmarks.async_training --curves        # and the learning curves of both, with users who answer at once

All is real but for two waits: the trainer (GRPO, credit by turn), the dialogues, the scripted users. A user's every call takes as long as a chat
endpoint's (log-normal around 0.6 s, drawn by persona and call), and an update takes `--update-s` longer, as a large model's would on an accelerator
of its own. The policy is a model of one layer whose every token is a whole reply, so it learns in a few steps. The bound is (rollouts + update) /
the longer of both, from the synchronous run: with updates that take no time nothing can be gained, and never more than 2.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

from transformers import TrainerCallback

from benchmarks.llm_server import latency_s
from rlver.components.domain.emotion import EmotionRules, emotion_reward
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import UserSession, Utterance
from rlver.components.domain.transcript import Appraisal, SimulatorTag
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.model import new_model, train_tokenizer
from rlver.components.policy.token_policy import Speaking, TokenPolicy
from rlver.components.policy.transformers_sampler import TransformersSampler
from rlver.components.rollout.ahead import OneStepAhead
from rlver.components.rollout.episode import Job, Rollout, run_episodes
from rlver.components.settings.settings import load_settings
from rlver.components.training.build import build_trainer
from rlver.components.training.section import UpdateParameters
from rlver.components.users.scripted.simulator import ScriptedSimulator

LEAST_S, MOST_S = 0.2, 2.0
TURNS, PERSONAS, GROUP = 4, 8, 4
PHRASES = (
    "I am so sorry, that sounds really hard.", "Tell me more about it. I am listening.", "You did nothing wrong here.",
    "Everything happens for a reason.", "I really admire how you kept going, that took courage.", "Just calm down.",
    "You could write down what you want to say first.", "Underneath all that I can sense the hurt.",
)  # fmt: skip
SETTINGS = Path(__file__).parents[1] / "params.yaml"


class PhraseChat:
    """Every token is a reply. What the user says is told by four tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self.end_of_turn: int = tokenizer.eos_token_id
        self._size = len(tokenizer)

    def start(self, user: str, language: str = "en") -> list[int]:
        return self.user_turn(user)

    def user_turn(self, user: str) -> list[int]:
        return [random.Random(f"{place}{user}").randrange(1, self._size) for place in range(4)]

    def decode(self, token_ids: Sequence[int]) -> str:
        return " ".join(PHRASES[token % len(PHRASES)] for token in token_ids if token != self.end_of_turn)

    def count(self, text: str) -> int:
        return 1


@dataclass
class SlowSession:
    """A user whose every call takes its time."""

    user: UserSession
    name: str
    scale: float
    calls: int = 0

    async def _wait(self) -> None:
        self.calls += 1
        await asyncio.sleep(self.scale * latency_s(random.Random(f"{self.name}/{self.calls}").randrange(2**31), LEAST_S, MOST_S))

    async def open(self) -> Utterance:
        return await self.user.open()

    async def appraise(self, reply: str) -> Appraisal:
        await self._wait()
        return await self.user.appraise(reply)

    async def speak(self, emotion: int) -> Utterance:
        await self._wait()
        return await self.user.speak(emotion)


@dataclass(frozen=True)
class SlowUsers:
    scale: float
    users: ScriptedSimulator = field(default_factory=lambda: ScriptedSimulator("vanilla"))

    @property
    def tag(self) -> SimulatorTag:
        return self.users.tag

    def session(self, persona: Persona, seed: int) -> SlowSession:
        return SlowSession(self.users.session(persona, seed), f"{persona.persona_id}/{seed}", self.scale)


@dataclass
class Clock(TrainerCallback):
    """The time of each step, of its rollouts as the trainer waits for them, and a longer update."""

    update_s: float
    rollouts_s: list[float] = field(default_factory=list)
    steps_s: list[float] = field(default_factory=list)
    began: float = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.began = self.began or time.monotonic()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        time.sleep(self.update_s)
        now = time.monotonic()
        self.steps_s.append(now - self.began)
        self.began = now

    def timed(self, rollouts: Callable[[Sequence[str], int], list[Rollout]]) -> Callable[[Sequence[str], int], list[Rollout]]:
        def waited(persona_ids: Sequence[str], step: int) -> list[Rollout]:
            began = time.monotonic()
            try:
                return rollouts(persona_ids, step)
            finally:
                self.rollouts_s.append(time.monotonic() - began)

        return waited


@dataclass(frozen=True)
class Trained:
    step_s: float  # median, without the first step, which has nothing to overlap with
    rollouts_s: float  # that the trainer waited for, median
    emotions: list[float]  # mean at the end of the dialogues, by step


def train(ahead: bool, steps: int, seed: int, latency: float, update_s: float) -> Trained:
    """`latency` scales the users' times."""
    people = compose_personas(load_library(), 7, 64, 8)[0]
    by_id = {one.persona_id: one for one in people}
    chooses = random.Random(seed)
    order = [one.persona_id for _ in range(steps) for one in chooses.sample(people, PERSONAS)]
    tokenizer = train_tokenizer(PHRASES * 3, vocab_size=330)
    model = new_model(tokenizer, hidden_size=32, layers=1, heads=2, max_positions=64, seed=seed)
    chat = PhraseChat(tokenizer)
    sampler = TransformersSampler(model, chat.end_of_turn, 1.0, 1.0, rows=PERSONAS * GROUP, capacity=64, apart=True)
    policy = TokenPolicy(sampler, chat, Speaking("phrases", False, False, max_reply_tokens=1, max_context_tokens=64))
    rules, users = EmotionRules(max_turns=TURNS), SlowUsers(latency)
    emotions: dict[int, float] = {}

    def hold(persona_ids: Sequence[str], step: int) -> list[Rollout]:
        jobs = [Job(f"{seed}/{step}/{place}", by_id[name], seed * 1000 + step) for place, name in enumerate(persona_ids)]
        held = asyncio.run(run_episodes(jobs, users, policy, rules, len(jobs)))
        emotions[step] = mean(float(one.dialogue.emotion_final or 0) for one in held)
        return held

    def after(step: int) -> tuple[list[str], int] | None:
        names = order[(step + 1) * PERSONAS : (step + 2) * PERSONAS]
        return ([name for name in names for _ in range(GROUP)], step + 1) if names else None

    def synchronous(persona_ids: Sequence[str], step: int) -> list[Rollout]:
        sampler.start()
        return hold(persona_ids, step)

    clock = Clock(update_s)
    rollouts = OneStepAhead(hold, after, sampler.start) if ahead else synchronous
    with tempfile.TemporaryDirectory() as folder:
        trainer = build_trainer(
            model, tokenizer, order, parameters(steps, seed), Path(folder), score=lambda one: emotion_reward(one.dialogue, True, False),
            rollouts=clock.timed(rollouts), callbacks=[clock],
        )  # fmt: skip
        trainer.train()
    return Trained(median(clock.steps_s[1:]), median(clock.rollouts_s[1:]), [emotions[step] for step in range(steps)])


def parameters(steps: int, seed: int) -> UpdateParameters:
    given = load_settings(SETTINGS)
    changes: dict[str, Any] = {
        "credit": "turn", "scale_rewards": "batch", "steps": steps, "personas_per_step": PERSONAS, "group_size": GROUP,
        "rows_per_forward": PERSONAS * GROUP, "learning_rate": 1e-2, "warmup_steps": 0, "beta": 0.0, "updates_per_batch": 1, "save_every": steps,
        "loss_type": "dapo",
    }  # fmt: skip
    reward = given.reward.model_copy(update={"format_gate": False, "cut_off_penalty": 0.0})
    policy = given.policy.model_copy(update={"thinking": False, "temperature": 1.0, "max_reply_tokens": 1})
    return UpdateParameters(given.train.model_copy(update=changes), reward, policy, TURNS, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8, help="of each timed training")
    parser.add_argument("--update-s", type=float, nargs="+", default=[0.0, 2.0, 5.0], help="that an update takes longer")
    parser.add_argument(
        "--curves", type=int, nargs="?", const=60, default=0, metavar="STEPS", help="learning curves of so many steps, six at least"
    )
    parser.add_argument("--seeds", type=int, default=3, help="of the curves")
    options = parser.parse_args()
    if 0 < options.curves < 6:
        parser.error("--curves needs 6 steps or more")
    for update_s in options.update_s:
        apart, ahead = (train(one, options.steps, 1, 1.0, update_s) for one in (False, True))
        update = apart.step_s - apart.rollouts_s
        bound = apart.step_s / max(apart.rollouts_s, update)
        print(
            f"update + {update_s:g} s: synchronous {apart.step_s:.2f} s a step ({apart.rollouts_s:.2f} rollouts, {update:.2f} update), one step ahead "
            f"{ahead.step_s:.2f} s: {apart.step_s / ahead.step_s:.2f} x (bound {bound:.2f})",
            flush=True,
        )
    if options.curves:
        for name, one in (("synchronous", False), ("one step ahead", True)):
            curves = [train(one, options.curves, seed, 0.0, 0.0).emotions for seed in range(1, options.seeds + 1)]
            tenths = [slice(place, place + options.curves // 6) for place in range(0, options.curves, options.curves // 6)]
            shown = "  ".join(f"{mean(mean(curve[tenth]) for curve in curves):5.1f}" for tenth in tenths)
            ends = ", ".join(f"{mean(curve[-options.curves // 6 :]):.1f}" for curve in curves)
            print(f"{name}: mean final emotion by sixth of {options.curves} steps  {shown}   (last sixth by seed: {ends})", flush=True)


if __name__ == "__main__":
    main()
