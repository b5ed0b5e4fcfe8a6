"""The same persona, seed and replies through every loop that a policy can stand in: the same words, emotions and reward, to the byte."""

from __future__ import annotations

import ast
import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from replying import HAS_UV, ROOT, converse, dialogue_of, reply, replying, vf_eval

from rlver.components.adapters.lent import NAME
from rlver.components.domain.emotion import emotion_reward
from rlver.components.domain.files import write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Reply, Tokens
from rlver.components.domain.thinking import said_in
from rlver.components.domain.transcript import Dialogue
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.rollout.episode import Job, run_episode
from rlver.components.settings.settings import Settings, load_settings
from rlver.components.users.together import user_of

ADAPTERS = ROOT / "components" / "adapters"
LIBRARIES = ("openenv", "verifiers", "verl")  # each adapter has the name of its library
HEAVY = {"torch", "transformers", "trl", "prefect", "mlflow", "dvc", "lm_eval", "vllm"}
BROUGHT = {"verl": {"torch", "transformers"}}  # by a library itself

Talk = tuple[list[str], list[int | None], float | None]  # what the policy heard, the emotion after each reply, the reward


class ReadReplies:
    """The other side of a dialogue in our own loop: it reads the replies off."""

    def __init__(self) -> None:
        self.tokens, self._turns = Tokens(), 0

    async def reply(self, user: str) -> Reply:
        self._turns += 1
        return Reply(said_in(reply(self._turns - 1), thinking=True), False, None, None)

    def close(self) -> None: ...


class Reader:
    name, tokens = NAME, Tokens()

    def session(self, dialogue_id: str, seed: int, language: str) -> ReadReplies:
        return ReadReplies()

    def start(self) -> None: ...

    async def close(self) -> None: ...


def talk_of(dialogue: Dialogue) -> Talk:
    words, emotions = [turn.user for turn in dialogue.turns], [turn.emotion for turn in dialogue.turns]
    return words, emotions, emotion_reward(dialogue, well_formed=True, format_gate=True)


def own_loop(persona: Persona, settings: Settings) -> Talk:
    wanted = settings.simulator
    user = user_of(wanted)
    session = user.session(persona, settings.seed)
    rollout = asyncio.run(run_episode(Job("own", persona, settings.seed), session, user.tag, Reader(), wanted.rules))
    return talk_of(rollout.dialogue)


def through_our_command(project: Path, settings: Settings, people: list[Persona]) -> list[Talk]:
    with replying() as endpoint:
        return [talk_of(one) for one in converse(project, endpoint.url, "own")]


def through_openenv(project: Path, settings: Settings, people: list[Persona]) -> list[Talk]:
    from openenv.core.generic_client import GenericEnvClient
    from served_users import SERVE, served

    def talk(persona: Persona) -> Talk:
        with GenericEnvClient(base_url=url).sync() as env:
            result = env.reset(seed=settings.seed, persona_id=persona.persona_id)
            words, emotions = list[str](), list[int | None]()
            while not result.done:
                words.append(result.observation["user"])
                result = env.step({"message": reply(len(emotions))})
                emotions.append(result.observation["metadata"]["emotion"])
            return words, emotions, result.reward

    with served(ROOT, project, *SERVE, "--personas", "people.jsonl", "--reward", "final", "--thinking") as url:
        return [talk(persona) for persona in people]


def through_verifiers(project: Path, settings: Settings, people: list[Persona]) -> list[Talk]:
    """The words are those that the endpoint was asked with, the reward is verifiers' own."""
    with replying() as endpoint:
        traces = {dialogue_of(trace).persona_id: trace for trace in vf_eval(project, endpoint.url, "theirs")}
    heard = [[one["content"] for one in asked["messages"] if one["role"] == "user"] for asked in endpoint.asked]
    talks = []
    for persona in people:
        words, emotions, _ = talk_of(dialogue_of(traces[persona.persona_id]))
        longest = max((one for one in heard if one[0] == words[0]), key=len)
        talks.append((longest, emotions, traces[persona.persona_id]["rewards"]["final_emotion"]["score"]))
    return talks


def through_verl(project: Path, settings: Settings, people: list[Persona]) -> list[Talk]:
    """The words are those that verl's server was asked with, the reward is that of verl's batch."""
    from micro import micro_tokenizer
    from verl_worker import LONGEST, Served, configuration, generated, rows_of

    from rlver.components.policy.sampler import Sample, SampleRequest

    tokenizer = micro_tokenizer()

    async def says(request: SampleRequest) -> Sample:
        turn = sum(one.dialogue_id == request.dialogue_id for one, _ in served.asked) - 1
        ids = (*tokenizer.encode(reply(turn), add_special_tokens=False), tokenizer.eos_token_id)
        return Sample(ids, (-1.0,) * len(ids), True)

    (project / "params").mkdir()
    (project / "params" / "long.yaml").write_text(f"policy: {{max_reply_tokens: 500, max_context_tokens: {LONGEST}}}\n")
    config, served = configuration(project, "long", f"data.seed={settings.seed}"), Served(says)
    batch = generated(config, served, rows_of(config))
    heard = [tokenizer.decode(request.context_ids) for request, _ in served.asked]
    talks = []
    for place, persona in enumerate(people):
        dialogue = Dialogue.model_validate_json(batch.non_tensor_batch["dialogue"][place])
        words, emotions, _ = talk_of(dialogue)
        assert dialogue.persona_id == persona.persona_id
        longest = max((one for one in heard if f"<|user|>{words[0]}<|end|>" in one), key=len)
        said = [piece.partition("<|end|>")[0] for piece in longest.split("<|user|>")[1:]]
        talks.append((said, emotions, round(batch.batch["rm_scores"][place].sum().item(), 6)))
    return talks


def needs(library: str) -> pytest.MarkDecorator:
    missing = find_spec(library) is None
    return pytest.mark.skipif(missing, reason=f"{library} is not installed: it has an environment of its own (docs/adapters.md)")


WHOLE = pytest.mark.skipif(not all(map(find_spec, ("httpx", "safetensors"))), reason="the command needs rlver[llm,distilled]")
UV = pytest.mark.skipif(not HAS_UV, reason="uv is not installed: verifiers' harness needs it")


@pytest.mark.long
@pytest.mark.parametrize(
    "through",
    [
        pytest.param(through_our_command, id="rlver converse", marks=WHOLE),
        pytest.param(through_openenv, id="OpenEnv", marks=needs("openenv")),
        pytest.param(through_verifiers, id="verifiers", marks=[needs("verifiers"), UV, pytest.mark.slow]),
        pytest.param(through_verl, id="verl", marks=[needs("verl"), pytest.mark.slow]),
    ],
)
def test_words_emotions_and_reward_are_the_same_to_the_byte(
    through: Callable[[Path, Settings, list[Persona]], list[Talk]], tmp_path: Path
) -> None:
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path / name)
    settings = load_settings(tmp_path / "params.yaml")
    people = compose_personas(load_library(), settings.seed, 8, 8)[1][:4]
    write_jsonl(tmp_path / "people.jsonl", [one.model_dump(mode="json") for one in people])
    expected = [own_loop(persona, settings) for persona in people]
    assert len({reward for _, _, reward in expected}) > 1 and all(len(words) > 2 for words, _, _ in expected)
    assert json.dumps(through(tmp_path, settings, people)).encode() == json.dumps(expected).encode()


@pytest.mark.parametrize("adapter", ["lent", *(pytest.param(name, marks=needs(name)) for name in LIBRARIES)])
def test_importing_an_adapter_brings_its_own_library_alone(adapter: str) -> None:
    code = f"import sys, rlver.components.adapters.{adapter}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert loaded & {*LIBRARIES} == {adapter} & {*LIBRARIES}
    assert not loaded & (HEAVY - BROUGHT.get(adapter, set()))


def test_an_adapter_is_short_and_knows_one_library() -> None:
    for name in LIBRARIES:
        text = (ADAPTERS / f"{name}.py").read_text(encoding="utf-8")
        assert len(text.splitlines()) < 150, name
        found = {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.module}
        found |= {alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for alias in node.names}
        assert {one.partition(".")[0] for one in found} & {*LIBRARIES, *HEAVY} == {name}
