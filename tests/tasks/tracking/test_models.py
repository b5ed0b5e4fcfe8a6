"""A logged policy is loaded by MLflow itself and answers: as a pyfunc, and behind `mlflow models serve`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from micro import micro_model, micro_tokenizer
from tracked_project import LOCK, make
from transformers import GenerationConfig

from benchmarks.house import imported
from rlver.components.domain.thinking import split_thought, system_prompt
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.load import save_policy
from rlver.tasks.runtime import environment, servers
from rlver.tasks.runtime.servers import PlannedServer
from rlver.tasks.tracking import models, records
from rlver.tasks.tracking.chat_model import DialoguePolicy
from rlver.tasks.tracking.recorder import MlflowRecorder

POLICY = {"thinking": False, "temperature": 1.0, "top_p": 1.0, "max_reply_tokens": 12, "max_context_tokens": 600}
TALK = [
    {"role": "user", "content": "My sister left without a word."},
    {"role": "assistant", "content": "Tell me more about it."},
    {"role": "user", "content": "What would you do?"},
]


@dataclass(frozen=True)
class Logged:
    """A real, tiny policy in MLflow: its URI, the project that it comes from, and the tracker's address."""

    model: str
    project: Path
    tracker: str


@pytest.fixture(scope="module")
def _logged(_tracking_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Logged:
    import mlflow
    from mlflow import MlflowClient

    folder = tmp_path_factory.mktemp("logged")
    project, tracker = make(folder / "project"), f"sqlite:///{shutil.copy(_tracking_template, folder / 'mlflow.db')}"
    mlflow.set_tracking_uri(tracker)  # an earlier test may have set another
    shutil.rmtree(project / "models/v")
    save_policy(micro_model(), micro_tokenizer(), project / "models/v")
    parameters = {**LOCK["train@v"].parameters, "params.yaml": {"seed": 7, "policy": POLICY, "simulator": {"kind": "scripted"}}}
    lock = {**LOCK, "train@v": replace(LOCK["train@v"], parameters=parameters)}
    with MlflowRecorder(project, tracker, "full") as recorder:
        run = recorder.record(records.read(project, "train@v", lock))
    client = MlflowClient(tracking_uri=tracker)
    prompts = client.get_run(run).data.tags["mlflow.linkedPrompts"]
    assert '"policy.direct.en"' in prompts and "think" not in prompts
    (model,) = client.search_logged_models([client.get_run(run).info.experiment_id])
    return Logged(str(model.model_uri), project, tracker)


@pytest.fixture
def logged(_logged: Logged, monkeypatch: pytest.MonkeyPatch) -> Logged:
    """For those who add nothing to it. Its tracker is the one that MLflow asks."""
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", _logged.tracker)
    mlflow.set_tracking_uri(_logged.tracker)
    return _logged


@pytest.mark.long
def test_a_logged_policy_answers_as_a_pyfunc_and_says_what_the_policy_says(logged: Logged) -> None:
    import mlflow

    model, finished = mlflow.pyfunc.load_model(logged.model), logged.project
    assert [column.name for column in model.metadata.signature.inputs] == ["messages", "temperature", "max_tokens", "seed"]
    assert not list(finished.glob("mlartifacts/**/*.pkl")) and list(finished.glob("mlartifacts/**/artifacts/policy/*.safetensors"))
    first, again, other = (model.predict({"messages": TALK, "seed": seed}) for seed in (1, 1, 2))
    assert first == again and first != other, "a request's seed decides"
    greedy = model.predict({"messages": TALK, "temperature": 0.0, "max_tokens": 5})
    assert greedy["choices"][0]["message"] == {"role": "assistant", "content": expected(finished / "models/v", 5)}
    assert greedy["model"] == "v" and greedy["choices"][0]["finish_reason"] in ("stop", "length")
    with pytest.raises(Exception, match="user and assistant must take turns"):
        model.predict({"messages": TALK[:2]})
    with pytest.raises(Exception, match="at most 600 fit"):
        model.predict({"messages": [{"role": "user", "content": "x " * 900}]})


def test_the_same_weights_are_a_pipeline_of_transformers(logged: Logged) -> None:
    import mlflow
    import torch

    talker, finished = mlflow.transformers.load_model(logged.model), logged.project
    assert talker.task == "text-generation"
    prompt = [{"role": "system", "content": system_prompt(thinking=False)}, *TALK]
    (answer,) = talker(prompt, max_new_tokens=5, do_sample=False)
    assert answer["generated_text"][-1]["role"] == "assistant"
    (weights,) = finished.glob("mlartifacts/**/artifacts/policy/*.safetensors")
    assert not list(finished.glob("mlartifacts/**/components/**/*.safetensors")), "stored once"
    from safetensors.torch import load_file

    ours = load_file(weights)
    assert all(torch.equal(ours[name], value) for name, value in talker.model.state_dict().items() if name in ours) and ours


def test_a_model_that_is_one_file_is_logged_without_the_pipeline_of_transformers(finished: Path, tracking_uri: str) -> None:
    """Its run ends, too: what cannot be logged would leave it RUNNING for ever."""
    from mlflow import MlflowClient

    shutil.rmtree(finished / "models/v")
    (finished / "models/v").write_text("weights")
    with MlflowRecorder(finished, tracking_uri, "full") as recorder:
        run = recorder.record(records.read(finished, "train@v", LOCK))
    found = MlflowClient(tracking_uri=tracking_uri).get_run(run).info
    assert found.status == "FINISHED"
    (card,) = finished.glob("mlartifacts/**/MLmodel")
    assert "python_function:" in card.read_text() and "transformers_version" not in card.read_text()


def expected(folder: Path, most: int) -> str:
    """The greedy reply of the same weights, by the project's own conversation format."""
    import torch

    from rlver.components.policy.load import load_policy

    model, tokenizer = load_policy(folder)
    chat = ChatFormat(tokenizer, system_prompt(thinking=False))
    ids = chat.start(TALK[0]["content"])
    ids += [*tokenizer(TALK[1]["content"], add_special_tokens=False)["input_ids"], chat.end_of_turn, *chat.user_turn(TALK[2]["content"])]
    with torch.inference_mode():
        for _ in range(most):
            token = int(model(torch.tensor([ids])).logits[0, -1].argmax())
            if token == chat.end_of_turn:
                break
            ids.append(token)
    reply = ids[len(ids) - most :] if chat.end_of_turn not in ids[-most:] else ids[len(ids) - ids[::-1].index(chat.end_of_turn) :]
    return split_thought(tokenizer.decode(reply), thinking=False).reply


@pytest.fixture
def policy(tmp_path: Path) -> DialoguePolicy:
    """As MLflow loads it: a base that came with penalties of its own for `generate`."""
    model = micro_model(scale=2.0)
    model.generation_config = GenerationConfig(repetition_penalty=1.5, top_k=20, do_sample=True)
    save_policy(model, micro_tokenizer(), tmp_path / "v")
    made = DialoguePolicy()
    made.load_context(SimpleNamespace(artifacts={"policy": str(tmp_path / "v")}, model_config={**POLICY, "name": "v", "seed": 1}))
    return made


def test_a_policy_samples_as_it_is_scored_whatever_its_base_would_generate_with(policy: DialoguePolicy, tmp_path: Path) -> None:
    assert "repetition_penalty" in (tmp_path / "v" / "generation_config.json").read_text()
    said = policy.predict(None, {"messages": TALK, "temperature": 0.0, "max_tokens": 12})
    assert said["choices"][0]["message"]["content"] == expected(tmp_path / "v", 12)


def test_a_policy_of_chinese_users_is_prompted_in_chinese_and_one_of_an_older_version_in_english(policy: DialoguePolicy) -> None:
    for language, config in {"en": policy.config, "zh": {**policy.config, "language": "zh"}}.items():
        policy.config = config
        assert policy._context_ids(TALK[:1]) == ChatFormat(policy.tokenizer, system_prompt(False, language)).start(TALK[0]["content"])


def test_prompts_get_a_version_when_their_words_change_and_not_before(finished: Path, tracking_uri: str) -> None:
    from rlver.tasks.tracking.filling import _registered_prompt
    from rlver.tasks.tracking.store import open_store

    store = open_store(finished, tracking_uri)
    versions = [_registered_prompt(store, "policy.think.en", words)["version"] for words in ("one", "one", "two", "two")]
    assert versions == ["1", "1", "2", "2"]


@pytest.mark.slow
def test_mlflow_models_serve_answers(logged: Logged) -> None:
    port, finished = servers.free_port(), logged.project
    command = (sys.executable, "-m", "mlflow", "models", "serve", "-m", logged.model, "--env-manager", "local", "--port", str(port))
    values = environment.for_child({"MLFLOW_TRACKING_URI": logged.tracker, "PYTHONPATH": ""})
    with servers.serving(
        PlannedServer("model", (*command, "--host", "127.0.0.1"), values, finished, port, finished / "serve.log", "/ping", 240)
    ):
        said: Any = httpx.post(
            f"http://127.0.0.1:{port}/invocations", json={"messages": TALK, "temperature": 0.0, "max_tokens": 5}, timeout=60
        )
        assert said.is_success, said.text
        assert said.json()["choices"][0]["message"] == {"role": "assistant", "content": expected(finished / "models/v", 5)}
        refused = httpx.post(f"http://127.0.0.1:{port}/invocations", json={"messages": TALK[:2]}, timeout=60)
        assert refused.status_code == 400 and "must take turns" in refused.text


@pytest.mark.long
def test_all_that_the_code_of_a_policy_imports_travels_with_it(repository_root: Path) -> None:
    graph = imported(repository_root)
    travels = {f"rlver.components.{name.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}" for name in models._CODE}
    travels |= {module for module in graph if module.startswith("rlver.components.domain.")}
    needed = {other for module in travels & set(graph) for other in graph.successors(module)}
    by_name = {f"rlver.components.weights.sources.{source}" for source in ("gguf", "package")}  # of other places than a folder
    assert "rlver.components.policy.weights" in needed and needed - travels == by_name


@pytest.mark.slow
def test_a_logged_policy_needs_nothing_of_this_project(logged: Logged, tmp_path: Path) -> None:
    """Loaded where `components` cannot be imported from a checkout: the code that travels with the model is enough."""
    script = (
        "import os, sys, mlflow; sys.path = [one for one in sys.path if not os.path.isdir(os.path.join(one, 'rlver'))]\n"
        "sys.meta_path = [one for one in sys.meta_path if 'editable' not in repr(one).lower()]\n"
        "model = mlflow.pyfunc.load_model(sys.argv[1]); from rlver import components; assert 'mlartifacts' in components.__file__, components.__file__\n"
        "print(model.predict({'messages': [{'role': 'user', 'content': 'hello'}], 'max_tokens': 3}))"
    )
    values = environment.for_child({"MLFLOW_TRACKING_URI": logged.tracker, "PYTHONPATH": ""})
    done = subprocess.run(
        (sys.executable, "-c", script, logged.model), cwd=tmp_path, env=values, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "'object': 'chat.completion'" in done.stdout
