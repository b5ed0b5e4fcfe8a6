"""Real vLLM in .venv-vllm speaks for a tiny policy: `make live`. One server for all tests, because its start takes longest."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
from ruamel.yaml import YAML
from small_project import REPOSITORY, make_project, train_arguments, weights

from rlver.components.policy.load import load_policy
from rlver.components.policy.policy_server import PolicyServer, PolicyServerFailed
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.policy.vllm_sampler import StaleWeights, VllmSampler
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.training.curves import CurveFile
from rlver.flows.cli import main as rlver
from rlver.tasks.runtime import environment
from rlver.tasks.runtime.serving.agreement import REQUESTS, agreement
from rlver.tasks.runtime.serving.setup import FOLDER, NotSetUp, python_of
from rlver.tasks.runtime.stage import TEMPORARY_FAILURE, run_stage
from rlver.tasks.stages import base, converse, train

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a base of its own, whose rollouts go over vLLM."""
    try:
        python_of(REPOSITORY)
    except NotSetUp as missing:
        pytest.skip(str(missing))
    root = tmp_path_factory.mktemp("live")
    make_project(root, save_every=2, evaluate_every=2)
    (root / "dvc.yaml").write_text("stages: {}\n")
    (root / FOLDER).symlink_to(REPOSITORY / FOLDER)
    values = YAML(typ="safe").load((root / "params.yaml").read_text())
    values["base"] |= {"hidden_size": 64, "heads": 2}  # heads of 32, the smallest that vLLM has on a CPU
    values["rollout"]["sampler"] = "vllm"
    YAML(typ="safe").dump(values, root / "params.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert base.main(["--personas", "train.jsonl", "--out", "models/base", "--metrics", "metrics/base.json"]) == 0
    return root


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    """`rlver serve start`, ended by `kill -9` of it: nothing of vLLM may be left then."""
    command = [sys.executable, "-m", "rlver.flows.cli", "serve", "start", "models/base", "--port", "7440"]
    surroundings = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"}
    owner = subprocess.Popen(command, cwd=root, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert owner.stdout is not None
    said = []
    for line in owner.stdout:
        said.append(line)
        if line.startswith("ready after"):
            break
    assert owner.poll() is None and said[-1].startswith("ready after"), "".join(said)
    yield said[-1].split()[-1]
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    end = time.monotonic() + 120
    while (left := _processes(root)) and time.monotonic() < end:
        time.sleep(0.5)
    assert not left, f"still there after the end of their owner: {left}"


@pytest.fixture(autouse=True)
def in_project(root: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setenv("RLVER_POLICY_SERVER_URL", url)


def key(url: str) -> str | None:
    return environment.policy_server_key(Path(), url)


def _processes(root: Path) -> list[str]:
    """vLLM's processes in this project."""
    found = []
    for process in psutil.process_iter(["cwd", "name", "status"]):
        if (
            process.info["cwd"] == str(root)
            and process.info["status"] != psutil.STATUS_ZOMBIE
            and process.pid != os.getpid()
            and "pytest" not in (process.info["name"] or "")
        ):
            found.append(f"{process.pid} {process.info['name']}")
    return found


def test_server_and_trainer_say_the_same_also_through_a_change_of_weights(root: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = agreement(url, key(url), root / "models" / "base", root / "scratch" / "agreement")
    with capsys.disabled():
        print(f"\n{found}")
    assert found.max < 1e-3 and found.mean < 1e-4 < 1e-2 < found.other
    assert found.greedy_same == REQUESTS
    assert found.under_way > 0 and found.after >= REQUESTS


def test_grpo_steps_are_sampled_with_the_weights_of_the_step_before(root: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(train_arguments("live")) == 0
    rows = CurveFile(root / "logs" / "live" / "train").rows()
    with capsys.disabled():
        print(f"\nnats from the trainer at each step: {[row['logprob_gap'] for row in rows]}")
    assert [row["step"] for row in rows] == [1, 2] and all(row["logprob_gap"] < 1e-4 for row in rows)
    assert not torch.equal(weights(root / "models" / "live"), weights(root / "models" / "base")), "the second step had other weights"
    (sent,) = (root / "scratch" / "live").glob("live-*/weights")
    assert PolicyServer(url, key(url)).version().startswith(f"{sent}@"), "the last check was held with the last weights"
    model, _ = load_policy(root / "models" / "live")
    sampler = VllmSampler(url, 0, 1.0, 1.0, 1, lambda: sent, key(url))
    sampler.start()
    assert _gap(model, _sample(sampler, "after training")) < 1e-4


def test_adapters_sent_alone_speak_as_the_trainer_does(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a server of its own, which has room for them."""
    monkeypatch.delenv("RLVER_POLICY_SERVER_URL")
    overlay = "policy: {thinking: false}\nrollout: {push: adapters}\ntrain: {lora_rank: 8, steps: 3}\n"
    (root / "params" / "adapters.yaml").write_text(overlay)
    assert train.main(train_arguments("adapters", "adapters")) == 0
    rows = CurveFile(root / "logs" / "adapters" / "train").rows()
    with capsys.disabled():
        print(f"\nnats from the trainer at each step, adapters sent alone: {[row['logprob_gap'] for row in rows]}")
    assert [row["step"] for row in rows] == [1, 2, 3] and all(row["logprob_gap"] < 1e-4 for row in rows)


def test_converse_holds_the_benchmark_over_vllm_and_a_seed_repeats_it(root: Path) -> None:
    def held(name: str) -> list[list[str]]:
        places = ["--personas", "test.jsonl", "--model", "models/base", "--out", f"transcripts/{name}.jsonl"]
        assert converse.main(["--variant", "v", *places]) == 0
        return [[turn.assistant for turn in dialogue.turns] for dialogue in load_transcripts(root / "transcripts" / f"{name}.jsonl")]

    once = held("once")
    assert len(once) == 8 and once == held("again")


def test_another_run_at_the_same_server_is_noticed(root: Path, url: str) -> None:
    ours, theirs = (VllmSampler(url, 0, 1.0, 1.0, 1, lambda name=name: root / "models" / name, key(url)) for name in ("base", "live"))
    ours.start()
    _sample(ours, "before")
    theirs.start()
    with pytest.raises(StaleWeights, match="a policy server serves one run at a time"):
        _sample(ours, "after")


def test_status_says_which_weights_the_server_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert rlver(["serve", "status"]) == 0
    assert "answers" in (said := capsys.readouterr().out) and "models/live@" in said


def test_what_the_server_refuses_is_told_in_one_line(root: Path, url: str) -> None:
    sampler = VllmSampler(url, 0, 1.0, 1.0, 1, lambda: root / "models" / "base", key(url))
    sampler.start()
    with pytest.raises(PolicyServerFailed, match=r"got 400: .*900"):
        _sample(sampler, "too long", tuple(range(5, 105)) * 10)
    (root / "torn").mkdir()
    (root / "torn" / "model.safetensors").write_bytes(b"half")
    with pytest.raises(PolicyServerFailed, match=r"they say \['\w+: .*restart it"):
        VllmSampler(url, 0, 1.0, 1.0, 1, lambda: root / "torn", key(url)).start()
    assert PolicyServer(url, key(url)).version().startswith("taking "), "so nobody takes its samples"


def test_a_server_that_is_not_there_is_a_temporary_failure_in_one_line(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RLVER_POLICY_SERVER_URL", "http://127.0.0.1:9")
    assert run_stage(lambda: train.main(train_arguments("nobody"))) == TEMPORARY_FAILURE
    assert "error: the policy server at http://127.0.0.1:9 does not answer" in capsys.readouterr().err


def _sample(sampler: VllmSampler, name: str, context: tuple[int, ...] = (5, 6, 7, 8)) -> Sample:
    async def ask() -> Sample:
        try:
            return await sampler.sample(SampleRequest(name, context, seed=3, max_tokens=8))
        finally:
            await sampler.close()

    return asyncio.run(ask())


def _gap(model: torch.nn.Module, sample: Sample) -> float:
    """The largest difference of a log-probability to the model's own, in nats."""
    with torch.no_grad():
        logprob = model(torch.tensor([[5, 6, 7, 8, *sample.token_ids]])).logits[0, 3:-1].log_softmax(-1)
    own = logprob.gather(-1, torch.tensor(sample.token_ids)[:, None])[:, 0]
    return float((own - torch.tensor(sample.logprobs)).abs().max())
