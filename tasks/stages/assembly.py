"""From settings to the parts of the method: the one place where stages put policy, user and rules together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.dialogue.episode import Job, Rollout
from components.dialogue.rollouts import hold_dialogues
from components.policy.chat import ChatFormat
from components.policy.protocol import Policy
from components.policy.thinking import system_prompt
from components.policy.token_policy import Speaking, TokenPolicy
from components.settings import Settings
from components.simulator.emotion import EmotionRules
from components.simulator.protocol import Simulator
from components.simulator.scripted.simulator import ScriptedSimulator

if TYPE_CHECKING:
    from components.endpoint.chat import ChatEndpoint
    from components.simulator.llm.simulator import LLMSimulator
    from tasks.connections import Connection


def emotion_rules(settings: Settings) -> EmotionRules:
    s = settings.simulator
    return EmotionRules(s.emotion_start, s.emotion_ceiling, s.emotion_floor, s.max_turns)


def simulator(settings: Settings, difficulty: str | None = None, endpoint: ChatEndpoint | None = None) -> Simulator:
    """The user of the benchmark, or one of another difficulty. `endpoint` is what `user_connection` gave: an LLM user speaks through it."""
    speaker = _speaker(settings, difficulty or settings.simulator.difficulty, endpoint)
    if settings.simulator.appraiser is None:
        return speaker
    from components.simulator.distilled.folder import folder_of
    from components.simulator.distilled.simulator import DistilledSimulator

    return DistilledSimulator(speaker, folder_of(settings.simulator.appraiser))


def _speaker(settings: Settings, difficulty: str, endpoint: ChatEndpoint | None) -> ScriptedSimulator | LLMSimulator:
    s = settings.simulator
    if s.kind == "scripted":
        return ScriptedSimulator(difficulty)
    if endpoint is None:
        raise RuntimeError("an LLM user needs an endpoint")
    from components.simulator.llm.parameters import LLMUserParameters, ModelParameters
    from components.simulator.llm.simulator import LLMSimulator

    parameters = LLMUserParameters(
        appraiser=ModelParameters(**s.llm.appraiser.model_dump()),
        speaker=ModelParameters(**s.llm.speaker.model_dump()),
        **s.llm.model_dump(include={"combined", "max_repairs", "max_quoted_characters"}),
    )
    return LLMSimulator(endpoint, difficulty, parameters, s.emotion_start)


def user_connection(settings: Settings) -> Connection | None:
    """The connection of the simulated user, found in order; None where it needs none. Raises NoServer or EndpointError."""
    if settings.simulator.kind == "scripted":
        return None
    from tasks.connections import to_user

    connection = to_user(settings)
    connection.check()
    return connection


@dataclass(frozen=True)
class Conversation:
    """Everything that holds dialogues except the jobs. `policy.start()` must precede dialogues with changed weights."""

    simulator: Simulator
    policy: Policy
    rules: EmotionRules
    concurrency: int
    connection: Connection | None = None  # of the user; open while dialogues are held
    policy_connection: Connection | None = None  # likewise, of a policy that is only talked with

    def user(self, settings: Settings, difficulty: str) -> Simulator:
        """A user of another difficulty, through the same connection."""
        return simulator(settings, difficulty, self.connection)

    def can_hold(self, jobs: Iterable[Job]) -> None:
        """Raise ValueError for the first persona that its user cannot play, before anything is spent."""
        for job in jobs:
            (job.simulator or self.simulator).session(job.persona, job.seed)

    def costs(self) -> str:
        """What the calls to chat endpoints have come to, in one line; empty when there are none."""
        return "; ".join(connection.line() for connection in (self.connection, self.policy_connection) if connection)

    def hold(self, jobs: Sequence[Job], on_finished: Callable[[Rollout], None] = lambda rollout: None) -> list[Rollout]:
        """Hold all dialogues with the present weights."""
        self.policy.start()
        return asyncio.run(self._hold(jobs, on_finished))

    async def _hold(self, jobs: Sequence[Job], on_finished: Callable[[Rollout], None]) -> list[Rollout]:
        async with self.connection or nullcontext(), self.policy_connection or nullcontext():
            try:
                return await hold_dialogues(jobs, self.simulator, self.policy, self.rules, self.concurrency, on_finished)
            finally:
                await self.policy.close()


def conversation(settings: Settings, policy_name: str, model: Any, tokenizer: Any, concurrency: int) -> Conversation:
    from components.policy.transformers_sampler import TransformersSampler

    policy = settings.policy
    connection = user_connection(settings)
    return Conversation(
        simulator=simulator(settings, endpoint=connection),
        policy=TokenPolicy(
            sampler=TransformersSampler(
                model, tokenizer.eos_token_id, policy.temperature, policy.top_p, rows=concurrency, capacity=policy.max_context_tokens
            ),
            chat=ChatFormat(tokenizer, system_prompt(policy.thinking), {"zh": system_prompt(policy.thinking, "zh")}),
            speaking=Speaking(
                policy=policy_name,
                thinking=policy.thinking,
                strip_thoughts=policy.thinking and policy.thoughts == "strip",
                max_reply_tokens=policy.max_reply_tokens,
                max_context_tokens=policy.max_context_tokens,
            ),
        ),
        rules=emotion_rules(settings),
        concurrency=concurrency,
        connection=connection,
    )


def endpoint_conversation(settings: Settings, to: Connection, model: str, concurrency: int) -> Conversation:
    """A conversation with a model behind a chat endpoint: evaluation only."""
    from components.policy.chat_policy import ChatPolicy

    policy = settings.policy
    connection = user_connection(settings)
    return Conversation(
        simulator=simulator(settings, endpoint=connection),
        policy=ChatPolicy(
            endpoint=to,
            model=model,
            system_of={language: system_prompt(policy.thinking, language) for language in ("en", "zh")},
            thinking=policy.thinking,
            strip_thoughts=policy.thoughts == "strip",
            temperature=policy.temperature,
            top_p=policy.top_p,
            max_reply_tokens=policy.max_reply_tokens,
        ),
        rules=emotion_rules(settings),
        concurrency=concurrency,
        connection=connection,
        policy_connection=to,
    )


def load(model_path: Path | str, settings: Settings, policy_name: str, concurrency: int) -> Conversation:
    """A conversation with the policy saved at `model_path`. Raises ValueError in one line when there is none."""
    from components.policy.load import check_context, load_policy

    model, tokenizer = load_policy(model_path)
    check_context(model, settings.policy.max_context_tokens)
    return conversation(settings, policy_name, model, tokenizer, concurrency)
