"""Our users in verifiers: its own evaluation command against a chat endpoint, beside our own loop. Needs the package verifiers, and uv for its harness."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("verifiers", reason="verifiers is not installed: it has an environment of its own (docs/adapters.md)")

import verifiers.v1 as vf
from replying import HAS_UV, dialogue_of, reply, replying, vf_eval

from rlver.components.adapters.lent import LentDialogue, NotScored, Turned
from rlver.components.adapters.verifiers import SupportEnv, SupportEnvConfig, SupportTaskset, SupportTasksetConfig, said_in
from rlver.components.domain.files import write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import SimulatorUnavailable
from rlver.components.domain.transcript import Dialogue
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.rollout.episode import Job

SEED, PEOPLE = 7, 4


@pytest.fixture
def project(repository_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(repository_root / "params.yaml", "params.yaml")
    people = compose_personas(load_library(), SEED, 8, 8)[1][:PEOPLE]
    write_jsonl(Path("people.jsonl"), [one.model_dump(mode="json") for one in people])
    return tmp_path


def environment() -> SupportEnv:
    """Made without verifiers' loaders, which look for the installed package."""
    env = SupportEnv.__new__(SupportEnv)
    env.config = SupportEnvConfig()
    env.taskset = SupportTaskset(SupportTasksetConfig(personas=Path("people.jsonl")))
    return env


async def our_own(env: SupportEnv, persona: Persona) -> tuple[list[Turned], Dialogue]:
    dialogue = LentDialogue(Job("own", persona, SEED), env.simulator, env._settings.simulator.rules, thinking=True)
    heard = [await dialogue.open()]
    while heard[-1].ended is None:
        heard.append(await dialogue.say(reply(len(heard) - 1)))
    assert heard[-1].ended is not None
    return heard, heard[-1].ended.dialogue


@dataclass
class Agent:
    """Says the replies in turn, as verifiers' interaction would give them; `stops_at`: its limit of turns."""

    stops_at: int | None = None
    heard: list[str] = field(default_factory=list)
    rewards: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)

    @asynccontextmanager
    async def interaction(self, task: vf.Task) -> Any:
        trace = SimpleNamespace(
            record_reward=self.rewards.__setitem__, record_metrics=self.metrics.update, info={}, stop_condition="max_turns"
        )
        yield SimpleNamespace(turn=self.turn, trace=trace)

    async def turn(self, message: str) -> vf.Segment:
        self.heard.append(message)
        if len(self.heard) == self.stops_at:
            return vf.Segment(messages=[], terminated=True)
        return vf.Segment(messages=[vf.AssistantMessage(content=reply(len(self.heard) - 1))])


async def play(env: SupportEnv, agent: Agent, task: vf.Task) -> None:
    await env.run(task, SimpleNamespace(agent=agent))


@pytest.mark.usefixtures("project")
def test_the_user_hears_and_says_what_it_does_in_our_own_loop() -> None:
    env = environment()
    tasks = list(env.taskset)
    assert len(tasks) == PEOPLE and all(task.data.prompt is None and task.data.system_prompt for task in tasks)
    for task in tasks:
        agent = Agent()
        asyncio.run(play(env, agent, task))
        heard, dialogue = asyncio.run(our_own(env, task.data.persona))
        assert agent.heard == [one.words for one in heard[:-1]]
        assert agent.rewards == {"final_emotion": dialogue.emotion_final / 100}
        assert [agent.metrics[f"change_{turn}"] for turn in range(1, len(heard))] == [one.change for one in heard[1:]]


@pytest.mark.usefixtures("project")
def test_what_cannot_be_scored_is_an_error_and_no_zero() -> None:
    env, agent = environment(), Agent(stops_at=2)
    task = next(iter(env.taskset))
    with pytest.raises(NotScored, match="max_turns"):
        asyncio.run(play(env, agent, task))

    class Away:
        tag = env.simulator.tag

        def session(self, persona: Persona, seed: int) -> Any:
            async def gone(*_: Any) -> Any:
                raise SimulatorUnavailable("the user's server is down")

            return SimpleNamespace(open=gone, appraise=gone, speak=gone)

    env.__dict__["simulator"] = Away()
    with pytest.raises(NotScored, match="the user's server is down"):
        asyncio.run(play(env, Agent(), task))
    assert not agent.rewards


def test_users_who_are_language_models_are_refused_before_anything_starts(project: Path, repository_root: Path) -> None:
    shutil.copytree(repository_root / "params", project / "params")
    taskset = SupportTaskset(SupportTasksetConfig(personas=Path("people.jsonl"), variant="any-model-llm"))
    with pytest.raises(ValueError, match="take OpenEnv"):
        next(taskset.load())


def test_a_thought_that_the_server_gives_apart_stands_in_tags() -> None:
    apart = vf.AssistantMessage(content="I hear you.", reasoning_content="be gentle")
    assert said_in(vf.Segment(messages=[apart])) == "<think>be gentle</think>I hear you."
    assert said_in(vf.Segment(messages=[])) == ""


@pytest.mark.slow
@pytest.mark.skipif(not HAS_UV, reason="uv is not installed: verifiers' harness needs it")
def test_their_evaluation_command_gives_the_rewards_of_our_own_loop(project: Path) -> None:
    with replying() as endpoint:
        traces = vf_eval(project, endpoint.url, "run")
    env = environment()
    expected = {task.data.id: (asyncio.run(our_own(env, task.data.persona))[1], task.data.system_prompt) for task in env.taskset}
    assert len(traces) == PEOPLE
    for trace in traces:
        held = dialogue_of(trace)
        dialogue, _ = expected[held.dialogue_id]
        assert held.turns == dialogue.turns
        assert trace["rewards"]["final_emotion"]["score"] == dialogue.emotion_final / 100
    assert {asked["messages"][0]["content"] for asked in endpoint.asked} == {system for _, system in expected.values()}
    second = next(asked for asked in endpoint.asked if len(asked["messages"]) == 4)
    assert second["messages"][2]["content"] == reply(0), "verifiers always keeps thoughts in what the policy reads"
    assert not any("seed" in asked for asked in endpoint.asked), "verifiers sends no seed; our own loop one a turn"
