"""A policy with weights behind `rlver serve`, scored by verifiers' evaluation command and by `rlver converse`: the same users, the same mean."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers", reason="verifiers is not installed: it has an environment of its own (docs/adapters.md)")
pytest.importorskip("torch", reason="torch is not installed here: serving weights needs rlver[serve]")

from announced import announced
from replying import HAS_UV, MODEL, converse, dialogue_of, vf_eval
from ruamel.yaml import YAML
from small_project import make_project

from rlver.components.adapters.lent import LentDialogue
from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Simulator
from rlver.components.domain.thinking import system_prompt
from rlver.components.domain.transcript import Dialogue
from rlver.components.personas.schema import validate_file
from rlver.components.policy.load import save_policy
from rlver.components.policy.supervised import encode_dialogue, warm_start
from rlver.components.policy.tiny.model import new_model, train_tokenizer
from rlver.components.rollout.episode import Job
from rlver.components.settings.settings import load_settings
from rlver.components.users.together import user_of

REPLIES = (
    "You did nothing wrong, and I mean that.", "What would you do differently?", "I hear you. What hurts most about it?",
    "You worked hard for this, and you can be proud of it.",
)  # fmt: skip
TURNS, REPLY_TOKENS = 4, 60
COLD, HOT = "cold.yaml", "hot.yaml"  # parameters: temperature 0, and 1.5


def our_user(params: str) -> tuple[Simulator, EmotionRules, int]:
    settings = load_settings(Path(params), "v")
    wanted = settings.simulator
    return user_of(wanted), wanted.rules, settings.seed


def played(persona: Persona, replies: list[str]) -> Dialogue:
    """Our own loop with these replies."""
    simulator, rules, seed = our_user(COLD)

    async def talk() -> Dialogue:
        dialogue = LentDialogue(Job("own", persona, seed), simulator, rules, thinking=False)
        turned = await dialogue.open()
        for one in replies:
            turned = await dialogue.say(one)
        assert turned.ended is not None
        return turned.ended.dialogue

    return asyncio.run(talk())


def learnt_by_heart(people: list[Persona], folder: Path) -> None:
    """A model that says one reply after the other, to each user from another one on: so users end with different emotions."""
    talks = []
    for number, persona in enumerate(people):
        said = [REPLIES[(number + turn) % len(REPLIES)] for turn in range(TURNS)]
        talks.append(([turn.user for turn in played(persona, said).turns], said))
    tokenizer = train_tokenizer([system_prompt(False), *(text for talk in talks for side in talk for text in side)] * 3, vocab_size=700)
    model: Any = new_model(tokenizer, hidden_size=48, layers=1, heads=2, max_positions=1536, seed=1)
    lesson = [encode_dialogue(tokenizer, users, said, thinking=False, user_weight=0.0) for users, said in talks] * 160
    assert warm_start(model, [lesson], learning_rate=0.01, batch_tokens=3000, max_seconds=0, seed=1).last_loss < 0.1
    save_policy(model, tokenizer, folder)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A project with the policy, and the address it is served at."""
    project = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        make_project(project)
        (project / "test.jsonl").rename("people.jsonl")
        yaml = YAML(typ="safe")
        values = yaml.load(Path("params.yaml").read_text())
        values["simulator"]["max_turns"] = TURNS
        values["policy"] |= {"max_reply_tokens": REPLY_TOKENS, "max_context_tokens": 1500}
        for name, temperature in ((COLD, 0.0), (HOT, 1.5)):
            values["evaluation"]["temperature"] = temperature
            yaml.dump(values, Path(name))
        (project / "dvc.yaml").write_text("stages: {}\n")
        learnt_by_heart(list(validate_file(Path("people.jsonl"))), project / "policy")
        command = ("serve", "policy", "--name", MODEL, "--variant", "v", "policy")
        with announced(project, r"at (http://\S+/v1)", *command, OMP_NUM_THREADS="1") as (_, url):
            yield project, url


def both(served: tuple[Path, str], params: str, temperature: float) -> list[tuple[Dialogue, Dialogue, float]]:
    """For each persona what our command wrote, what verifiers' command found, and the reward there."""
    project, url = served
    own = {one.persona_id: one for one in converse(project, url, Path(params).stem, "--variant", "v", "--params", params)}
    sampling = ["--sampling.temperature", str(temperature), "--sampling.top-p", "1", "--sampling.max-tokens", str(REPLY_TOKENS)]
    of_people = ["--env.taskset.params", params, "--env.taskset.variant", "v"]
    traces = vf_eval(project, url, Path(params).stem, *of_people, *sampling)
    found = [(own.pop(dialogue_of(one).persona_id), dialogue_of(one), one["rewards"]["final_emotion"]["score"]) for one in traces]
    assert not own and len(found) == 8
    return found


needed = pytest.mark.skipif(
    not HAS_UV or any(find_spec(name) is None for name in ("accelerate", "starlette", "h11")),
    reason="verifiers' harness needs uv, and serving weights needs rlver[serve]",
)


@needed
@pytest.mark.slow
def test_without_chance_both_commands_give_the_same_mean(served: tuple[Path, str]) -> None:
    found = both(served, COLD, 0.0)
    assert len({own.emotion_final for own, _, _ in found}) > 2, "a mean of equal numbers says little"
    for own, theirs, reward in found:
        assert own.seed == theirs.seed and own.turns == theirs.turns, "words, replies, emotions and reasons"
        assert reward == own.emotion_final / 100
    means = [statistics.mean(numbers) for numbers in zip(*((own.emotion_final / 100, reward) for own, _, reward in found), strict=True)]
    assert means[0] == means[1]


@needed
@pytest.mark.slow
def test_with_chance_the_users_are_the_same_and_the_replies_are_not(served: tuple[Path, str]) -> None:
    """verifiers sends no seed, so the endpoint draws: what the policy says differs, and the user answers what it hears as in our own loop."""
    found = both(served, HOT, 1.5)
    assert any(own.turns != theirs.turns for own, theirs, _ in found)
    people = {one.persona_id: one for one in validate_file(served[0] / "people.jsonl")}
    for own, theirs, reward in found:
        assert own.turns[0].user == theirs.turns[0].user
        again = played(people[theirs.persona_id], [turn.assistant for turn in theirs.turns])
        assert [turn.model_dump(exclude={"think"}) for turn in again.turns] == [turn.model_dump(exclude={"think"}) for turn in theirs.turns]
        assert reward == again.emotion_final / 100
