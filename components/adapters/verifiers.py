"""Our users as a `verifiers` environment: one task a persona, an episode is a dialogue, the reward is the final emotion.

A dialogue is our own loop; verifiers' agent is its policy, and every turn of the agent is one reply. A dialogue that failed raises, so the episode
is an error there and no zero. verifiers finds it by the package `rlver_verifiers` (packages/rlver-verifiers).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import verifiers.v1 as vf

from rlver.components.adapters.lent import LentDialogue, NotScored, Turned
from rlver.components.domain.emotion import emotion_reward
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Simulator
from rlver.components.domain.thinking import CLOSE, OPEN, system_prompt
from rlver.components.personas.schema import validate_file
from rlver.components.rollout.episode import Job
from rlver.components.settings.settings import Settings, load_settings
from rlver.components.users.together import user_of

REWARD = "final_emotion"  # of a dialogue, as a share of 100


class SupportData(vf.TaskData):
    persona: Persona
    seed: int


class SupportTask(vf.Task[SupportData]):
    """A user to be supported. The user speaks first, so there is no prompt."""


class SupportTasksetConfig(vf.TasksetConfig):
    personas: Path = Path("data/personas/test.jsonl")
    params: Path = Path("params.yaml")
    variant: str | None = None  # whose settings of user and policy
    seed: int | None = None  # of the dialogues; None: that of the parameters
    repeats: int = 1  # dialogues with each persona, with seeds that follow each other


class SupportTaskset(vf.Taskset[SupportTask, SupportTasksetConfig]):
    """One task a persona and seed, in the order of `rlver converse`."""

    @cached_property
    def settings(self) -> Settings:
        """Raises ValueError for users who are language models: their connection is the project's own."""
        settings = load_settings(self.config.params, self.config.variant)
        if settings.simulator.models:
            raise ValueError("users who are language models are not lent to verifiers yet: take OpenEnv (`rlver env serve`)")
        return settings

    def load(self) -> Iterator[SupportTask]:
        first, thinking = self.settings.seed if self.config.seed is None else self.config.seed, self.settings.policy.thinking
        personas = validate_file(self.config.personas)
        for seed in range(first, first + self.config.repeats):
            for one in personas:
                data = SupportData(
                    id=f"{one.persona_id}/{seed}",
                    name=one.topic,
                    system_prompt=system_prompt(thinking, one.language),
                    persona=one,
                    seed=seed,
                )
                yield SupportTask(data, self.config.task)


class SupportEnvConfig(vf.EnvConfig):
    """One seat, the policy. It only talks: the harness without tools, in a process of this machine."""

    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
    format_gate: bool = True  # with policy.thinking: a dialogue in which a reply lacks its thought is worth 0


class SupportEnv(vf.Env[SupportEnvConfig]):
    """The dialogue as control flow: what the user says is the agent's next message, until the user or a rule ends it."""

    @cached_property
    def _settings(self) -> Settings:
        taskset = self.taskset
        assert isinstance(taskset, SupportTaskset), "this environment plays its own taskset"
        return taskset.settings

    @cached_property
    def simulator(self) -> Simulator:
        return user_of(self._settings.simulator)

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        settings, data = self._settings, task.data
        job = Job(str(data.id), data.persona, data.seed)
        dialogue = LentDialogue(job, self.simulator, settings.simulator.rules, settings.policy.thinking)
        try:
            async with agents.agent.interaction(task) as interaction:
                turned, changes = await dialogue.open(), []
                while turned.ended is None:
                    segment = await interaction.turn(turned.words)
                    if segment.terminated:
                        raise NotScored(f"{job.dialogue_id}: verifiers ended it ({interaction.trace.stop_condition}); it has no reward")
                    turned = await dialogue.say(said_in(segment))
                    changes.append(turned.change)
                self._score(interaction.trace, turned, changes)
        finally:
            dialogue.close()

    def _score(self, trace: vf.Trace, turned: Turned, changes: list[int]) -> None:
        assert turned.ended is not None
        held, thinking = turned.ended.dialogue, self._settings.policy.thinking
        reward = emotion_reward(held, turned.ended.well_formed, format_gate=thinking and self.config.format_gate)
        if reward is None:
            raise NotScored(f"{held.dialogue_id}: {held.error}")
        trace.record_reward(REWARD, reward)
        trace.record_metrics({"emotion": float(held.emotion_final or 0), "well_formed": float(turned.ended.well_formed)})
        trace.record_metrics({f"change_{number}": float(change) for number, change in enumerate(changes, start=1)})
        trace.info["rlver"] = held.model_dump(mode="json")


def said_in(segment: vf.Segment) -> str:
    """What the agent said last, with the thought in tags where the server gave it apart."""
    last = next((one for one in reversed(segment.messages) if isinstance(one, vf.AssistantMessage)), None)
    reasoning = last.reasoning_content if last else None
    return f"{OPEN}{reasoning}{CLOSE}{segment.last_reply}" if reasoning else segment.last_reply
