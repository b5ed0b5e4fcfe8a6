"""From settings to the parts of the method: the one place where stages put policy, user and rules together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.dialogue.episode import Job, Rollout, Speaking
from components.dialogue.rollouts import hold_dialogues
from components.policy.chat import ChatFormat
from components.policy.sampler import PolicySampler
from components.policy.thinking import system_prompt
from components.settings import Settings
from components.simulator.emotion import EmotionRules
from components.simulator.protocol import Simulator
from components.simulator.scripted.simulator import ScriptedSimulator


def emotion_rules(settings: Settings) -> EmotionRules:
    s = settings.simulator
    return EmotionRules(s.emotion_start, s.emotion_ceiling, s.emotion_floor, s.max_turns)


def simulator(settings: Settings, difficulty: str | None = None) -> Simulator:
    """The user of the benchmark, or one of another difficulty."""
    return ScriptedSimulator(difficulty or settings.simulator.difficulty)


@dataclass(frozen=True)
class Conversation:
    """Everything that holds dialogues except the jobs. `sampler.start()` must precede dialogues with changed weights."""

    simulator: Simulator
    sampler: PolicySampler
    chat: ChatFormat
    speaking: Speaking
    rules: EmotionRules
    concurrency: int

    def hold(self, jobs: Sequence[Job], on_finished: Callable[[Rollout], None] = lambda rollout: None) -> list[Rollout]:
        """Hold all dialogues with the present weights."""
        self.sampler.start()
        return asyncio.run(self._hold(jobs, on_finished))

    async def _hold(self, jobs: Sequence[Job], on_finished: Callable[[Rollout], None]) -> list[Rollout]:
        talk = (self.simulator, self.sampler, self.chat, self.speaking, self.rules, self.concurrency)
        try:
            return await hold_dialogues(jobs, *talk, on_finished)
        finally:
            await self.sampler.close()


def conversation(settings: Settings, policy_name: str, model: Any, tokenizer: Any, concurrency: int) -> Conversation:
    from components.policy.transformers_sampler import TransformersSampler

    policy = settings.policy
    return Conversation(
        simulator=simulator(settings),
        sampler=TransformersSampler(
            model, tokenizer.eos_token_id, policy.temperature, policy.top_p, rows=concurrency, capacity=policy.max_context_tokens
        ),
        chat=ChatFormat(tokenizer, system_prompt(policy.thinking)),
        speaking=Speaking(
            policy=policy_name,
            thinking=policy.thinking,
            strip_thoughts=policy.thinking and policy.thoughts == "strip",
            max_reply_tokens=policy.max_reply_tokens,
            max_context_tokens=policy.max_context_tokens,
        ),
        rules=emotion_rules(settings),
        concurrency=concurrency,
    )


def load(model_path: Path | str, settings: Settings, policy_name: str, concurrency: int) -> Conversation:
    """A conversation with the policy saved at `model_path`. Raises ValueError in one line when there is none."""
    from components.policy.load import load_policy

    model, tokenizer = load_policy(model_path)
    return conversation(settings, policy_name, model, tokenizer, concurrency)
