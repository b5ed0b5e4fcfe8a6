"""From settings to the parts of the method: the one place where stages put policy, user and rules together.

Who speaks for the policy in rollouts: the model in this process, or a vLLM server that gets its weights (`rollout.sampler`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.protocols import Policy, Simulator
from rlver.components.domain.thinking import system_prompt
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.token_policy import Speaking, TokenPolicy
from rlver.components.rollout.episode import Job, Rollout, run_episodes
from rlver.components.settings.settings import Settings
from rlver.components.users.together import user_of
from rlver.tasks.runtime import environment
from rlver.tasks.runtime.serving.server import Serving, available
from rlver.tasks.runtime.stage import give_back_memory

BESIDE_A_TRAINER = 0.4  # of a GPU's memory

if TYPE_CHECKING:
    from rlver.components.endpoint.chat import ChatEndpoint
    from rlver.tasks.runtime.connections import Connection


def simulator(settings: Settings, difficulty: str | None = None, endpoint: ChatEndpoint | None = None) -> Simulator:
    """The user of the benchmark, or one of another difficulty. `endpoint` is what `user_connection` gave: models speak through it."""
    return user_of(settings.simulator, difficulty, endpoint)


def user_connection(settings: Settings) -> Connection | None:
    """The connection of the simulated user, found in order; None where it needs none. Raises NoServer or EndpointError."""
    if not settings.simulator.models:
        return None
    from rlver.tasks.runtime.connections import to_user

    connection = to_user(settings, settings.simulator.models)
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

    def hold(
        self, jobs: Sequence[Job], on_finished: Callable[[Rollout], None] = lambda rollout: None, started: bool = False
    ) -> list[Rollout]:
        """Hold all dialogues with the present weights; where the policy was `started` before, with those of then."""
        give_back_memory()  # of the update before
        if not started:
            self.policy.start()
        try:
            return asyncio.run(self._hold(jobs, on_finished))
        finally:
            give_back_memory()  # of these dialogues, before the next update

    async def _hold(self, jobs: Sequence[Job], on_finished: Callable[[Rollout], None]) -> list[Rollout]:
        asyncio.get_running_loop().set_exception_handler(_but_interrupts)
        async with self.connection or nullcontext(), self.policy_connection or nullcontext():
            try:
                return await run_episodes(jobs, self.simulator, self.policy, self.rules, self.concurrency, on_finished)
            finally:
                await self.policy.close()


def _but_interrupts(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio tells of a task that nobody waited for, but for the one that a signal ended: the interrupt itself is raised."""
    if not isinstance(context.get("exception"), KeyboardInterrupt):
        loop.default_exception_handler(context)


def conversation(settings: Settings, policy_name: str, model: Any, tokenizer: Any, concurrency: int, apart: bool = False) -> Conversation:
    """`apart`: the policy speaks with a copy of the model's weights, taken whenever it is started."""
    from rlver.components.policy.transformers_sampler import TransformersSampler

    policy = settings.policy
    return _with_its_user(
        settings,
        TokenPolicy(
            sampler=TransformersSampler(
                model,
                tokenizer.eos_token_id,
                policy.temperature,
                policy.top_p,
                rows=concurrency,
                capacity=policy.max_context_tokens,
                precision=policy.precision,
                apart=apart,
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
        concurrency,
    )


def endpoint_conversation(settings: Settings, to: Connection, model: str, concurrency: int) -> Conversation:
    """A conversation with a model behind a chat endpoint: evaluation only."""
    from rlver.components.policy.chat_policy import ChatPolicy

    policy = settings.policy
    return _with_its_user(
        settings,
        ChatPolicy(
            endpoint=to,
            model=model,
            system_of={language: system_prompt(policy.thinking, language) for language in ("en", "zh")},
            thinking=policy.thinking,
            strip_thoughts=policy.thoughts == "strip",
            temperature=policy.temperature,
            top_p=policy.top_p,
            max_reply_tokens=policy.max_reply_tokens,
        ),
        concurrency,
        to,
    )


def _with_its_user(settings: Settings, policy: Policy, concurrency: int, policy_connection: Connection | None = None) -> Conversation:
    user = user_connection(settings)
    return Conversation(simulator(settings, endpoint=user), policy, settings.simulator.rules, concurrency, user, policy_connection)


@contextmanager
def policy_server(
    settings: Settings, model: Path | str, concurrency: int, trains: bool = False, adapter_rank: int = 0
) -> Iterator[str | None]:
    """The address of the server for rollouts: the user's own, or one for as long as this lasts; None where none is wanted.

    Where this process `trains`, the server leaves it a share of a GPU that both see. `adapter_rank` is as Serving has it.
    """
    if settings.rollout.sampler == "transformers":
        yield None
    else:
        rollout = settings.rollout
        share = rollout.server_memory_share or (BESIDE_A_TRAINER if trains and rollout.server_gpus is None else None)
        length, gpus = settings.policy.max_context_tokens, rollout.server_gpus
        what = Serving(str(model), length, concurrency, gpus=gpus, memory_share=share, adapter_rank=adapter_rank)
        with available(environment.project_root(), what) as url:
            yield url


def over_http(talk: Conversation, settings: Settings, url: str | None, weights: Callable[[], Path], adapters: bool = False) -> Conversation:
    """`talk` with the server at `url` in place of the model in this process; as it is where `url` is None.

    `weights` and `adapters` are as VllmSampler has them.
    """
    from rlver.components.policy.vllm_sampler import VllmSampler

    if url is None:
        return talk
    assert isinstance(talk.policy, TokenPolicy)
    numbers = (settings.policy.temperature, settings.policy.top_p, talk.concurrency)
    key = environment.policy_server_key(environment.project_root(), url)
    sampler = VllmSampler(url, talk.policy.chat.end_of_turn, *numbers, weights, key, adapters)
    return replace(talk, policy=replace(talk.policy, sampler=sampler))


@contextmanager
def open_conversation(model: Path | str, settings: Settings, policy_name: str, concurrency: int) -> Iterator[Conversation]:
    """A conversation with the policy saved at `model`, whoever speaks for it. Raises ValueError in one line when there is none."""
    from rlver.components.policy.load import check_context, check_policy, load_policy

    if settings.rollout.sampler == "vllm" and not Path(model).is_dir():
        raise ValueError(f"rollout.sampler: vllm needs the policy in a folder of this machine, got {model}")
    tokenizer = check_policy(model) if settings.rollout.sampler == "vllm" else None
    with policy_server(settings, model, concurrency) as url:
        if url is None:
            loaded, tokenizer = load_policy(model)
            check_context(loaded, settings.policy.max_context_tokens)
            yield conversation(settings, policy_name, loaded, tokenizer, concurrency)
        else:
            no_model: Any = None
            talk = conversation(settings, policy_name, no_model, tokenizer, concurrency)
            yield over_http(talk, settings, url, lambda: Path(model))
