"""The sampler over HTTP: what it asks, what it makes of the answer, and that no other weights than those it gave can speak for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import RULES, SPEAKING, TAG, FakeSimulator, FakeUser, LetterChat, job
from scripted_vllm import END, Answer, Body, ScriptedVllm, sampled, says_two, serving

from rlver.components.policy import vllm_sampler
from rlver.components.policy.policy_server import PolicyServer, PolicyServerFailed, PolicyServerUnavailable
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.policy.token_policy import TokenPolicy
from rlver.components.policy.vllm_sampler import StaleWeights, VllmSampler
from rlver.components.policy.weights import version_of
from rlver.components.rollout.episode import run_episodes

REQUEST = SampleRequest("d1", (5, 6, 7), seed=11, max_tokens=4)


@pytest.fixture
def vllm() -> Iterator[ScriptedVllm]:
    with serving(ScriptedVllm(says_two)) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    return tmp_path


def sampler_of(vllm: ScriptedVllm, folder: Path, temperature: float = 0.7, connections: int = 8) -> VllmSampler:
    return VllmSampler(vllm.url, END, temperature, 0.9, connections, lambda: folder)


def sample(sampler: VllmSampler, *requests: SampleRequest) -> list[Sample]:
    async def ask() -> list[Sample]:
        try:
            return list(await asyncio.gather(*(sampler.sample(request) for request in requests)))
        finally:
            await sampler.close()

    return asyncio.run(ask())


def test_tokens_go_in_and_tokens_and_logprobs_come_out(vllm: ScriptedVllm, folder: Path) -> None:
    sampler = sampler_of(vllm, folder)
    sampler.start()
    assert sample(sampler, REQUEST) == [Sample((9, END), (-0.5, -0.25), finished=True)]
    (asked,) = vllm.asked
    assert asked["token_ids"] == [5, 6, 7]
    wanted = {"seed": 11, "max_tokens": 4, "temperature": 0.7, "top_p": 0.9, "stop_token_ids": [END], "logprobs": 0}
    neutral = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    assert wanted.items() <= asked["sampling_params"].items() and neutral.items() <= asked["sampling_params"].items()


def test_a_turn_without_its_end_is_not_finished_and_a_greedy_one_was_certain(vllm: ScriptedVllm, folder: Path) -> None:
    vllm.generate = lambda body, vllm: sampled([9, 8], [-0.5, -0.25], [vllm.version], reason="length")
    sampler = sampler_of(vllm, folder, temperature=0.0)
    sampler.start()
    assert sample(sampler, REQUEST) == [Sample((9, 8), (0.0, 0.0), finished=False)]


def test_new_weights_come_behind_a_barrier(vllm: ScriptedVllm, folder: Path) -> None:
    sampler_of(vllm, folder).start()
    version = version_of(folder)
    assert vllm.calls == [
        "/pause wait",
        f"/update_weight_version taking {version}",
        "/collective_rpc",
        "/reset_prefix_cache",
        f"/update_weight_version {version}",
        "/resume",
    ]
    assert PolicyServer(vllm.url).version() == version and not PolicyServer(vllm.url).is_paused()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((500, {"error": "expected weights a, found b"}), "got 500: .*expected weights a, found b"),
        ((200, {"results": ["RuntimeError: no such disk"]}), r"they say \['RuntimeError: no such disk'\]; restart it"),
        ((200, {"results": []}), r"they say \[\]"),
    ],
)
def test_weights_that_were_not_taken_speak_for_nobody(vllm: ScriptedVllm, folder: Path, answer: Answer, message: str) -> None:
    good = sampler_of(vllm, folder)
    good.start()
    vllm.take = lambda folder, version: answer
    with pytest.raises(PolicyServerFailed, match=message):
        sampler_of(vllm, folder).start()
    assert not vllm.paused, "the others can go on, and are told"
    with pytest.raises(StaleWeights, match="was sampled with the weights taking "):
        sample(good, REQUEST)


def test_weights_that_another_run_gave_are_refused(vllm: ScriptedVllm, folder: Path, tmp_path: Path) -> None:
    sampler = sampler_of(vllm, folder)
    sampler.start()
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.safetensors").write_bytes(b"other weights")
    sampler_of(vllm, other).start()
    with pytest.raises(StaleWeights, match=r"d1 was sampled with the weights .*/other@\d+, not .*; a policy server serves one run"):
        sample(sampler, REQUEST)


def test_a_turn_with_two_weights_in_it_is_refused(vllm: ScriptedVllm, folder: Path) -> None:
    vllm.generate = lambda body, vllm: sampled([9, END], [-0.5, -0.25], ["old", vllm.version])
    sampler = sampler_of(vllm, folder)
    sampler.start()
    with pytest.raises(StaleWeights, match="in the middle of a turn: old, "):
        sample(sampler, REQUEST)


@pytest.mark.parametrize(
    "answer",
    [
        lambda version: (200, {"choices": []}),
        lambda version: (200, {"error": "busy"}),
        lambda version: (200, []),
        lambda version: (200, b"<html>"),
        lambda version: sampled([], [], [version]),
        lambda version: sampled([9], [-0.5], [version], reason="abort"),
        lambda version: (
            200,
            {
                "choices": [
                    {
                        "token_ids": [9, 8],
                        "logprobs": {"content": [{"logprob": -1.0}]},
                        "finish_reason": "stop",
                        "weight_versions": [{"version": version}],
                    }
                ]
            },
        ),
        lambda version: (
            200,
            {"choices": [{"token_ids": [9], "logprobs": None, "finish_reason": "stop", "weight_versions": [{"version": version}]}]},
        ),
        lambda version: (200, {"choices": [{"token_ids": [9], "logprobs": {"content": [{"logprob": -1.0}]}, "finish_reason": "stop"}]}),
        lambda version: (400, {"error": "the prompt is too long"}),
        lambda version: (404, {}),
    ],
)
def test_anything_but_a_whole_answer_is_an_error(vllm: ScriptedVllm, folder: Path, answer: Callable[[str], Answer]) -> None:
    vllm.generate = lambda body, vllm: answer(vllm.version)
    sampler = sampler_of(vllm, folder)
    sampler.start()
    with pytest.raises(PolicyServerFailed) as failed:
        sample(sampler, REQUEST)
    assert not isinstance(failed.value, StaleWeights), "the answer itself is wrong, not its weights"


def test_a_server_that_is_not_ours_is_told_apart(vllm: ScriptedVllm, folder: Path) -> None:
    with pytest.raises(PolicyServerFailed, match="VLLM_SERVER_DEV_MODE=1 and our worker extension"):
        PolicyServer(f"{vllm.url}/elsewhere").take(folder)


def test_a_lost_connection_is_tried_again_and_gives_the_same_sample(
    vllm: ScriptedVllm, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_sampler, "FIRST_PAUSE_S", 0.001)
    vllm.cut = 2
    sampler = sampler_of(vllm, folder)
    sampler.start()
    assert sample(sampler, REQUEST)[0].token_ids == (9, END)
    assert len(vllm.asked) == 3 and vllm.asked[0] == vllm.asked[2], "the seed is the same"


def test_a_server_that_is_gone_stops_all_dialogues_and_is_nobodys_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_sampler, "FIRST_PAUSE_S", 0.001)
    with serving(ScriptedVllm(says_two)) as vllm:
        sampler = sampler_of(vllm, folder)
        sampler.start()

    async def hold() -> Any:
        try:
            users = FakeSimulator(lambda persona, seed: FakeUser("U", [3, 3]))
            return await run_episodes([job(0), job(1)], users, TokenPolicy(sampler, LetterChat(), SPEAKING), RULES, 2)
        finally:
            await sampler.close()

    with pytest.raises(PolicyServerUnavailable, match=r"the policy server at http://127.0.0.1:\d+ does not answer .*`rlver serve status`"):
        asyncio.run(hold())
    with pytest.raises(PolicyServerUnavailable):
        sampler.start()
    assert issubclass(PolicyServerUnavailable, ConnectionError), "which a stage reports as a temporary failure"


def test_no_more_requests_are_under_way_than_connections(vllm: ScriptedVllm, folder: Path) -> None:
    def slow(body: Body, vllm: ScriptedVllm) -> Answer:
        time.sleep(0.02)
        return says_two(body, vllm)

    vllm.generate = slow
    sampler = sampler_of(vllm, folder, connections=3)
    sampler.start()
    assert len(sample(sampler, *(SampleRequest(f"d{number}", (5,), number, 4) for number in range(12)))) == 12
    assert 2 <= vllm.most_at_once <= 3


def test_a_sampler_that_was_not_started_does_not_sample(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="start"):
        asyncio.run(VllmSampler("http://127.0.0.1:9", END, 1.0, 1.0, 1, lambda: folder).sample(REQUEST))


def test_holding_dialogues_over_http_is_holding_dialogues(vllm: ScriptedVllm, folder: Path) -> None:
    """Turn by turn, the server gets the whole context so far."""
    sampler = sampler_of(vllm, folder)
    sampler.start()
    users = FakeSimulator(lambda persona, seed: FakeUser("U", [3, 3, 3, 3]))

    async def hold() -> Any:
        try:
            return await run_episodes([job(0)], users, TokenPolicy(sampler, LetterChat(), SPEAKING), RULES, 1)
        finally:
            await sampler.close()

    (rollout,) = asyncio.run(hold())
    assert rollout.dialogue.simulator == TAG and len(rollout.dialogue.turns) == RULES.max_turns
    whole = [*rollout.prompt_ids, *rollout.completion_ids]
    contexts = [asked["token_ids"] for asked in vllm.asked]
    assert len(contexts) == RULES.max_turns and all(whole[: len(context)] == context for context in contexts)
    assert len({asked["sampling_params"]["seed"] for asked in vllm.asked}) == RULES.max_turns
    assert [p for p, policy in zip(rollout.logprob_T, rollout.is_policy_T, strict=True) if policy] == [-0.5, -0.25] * RULES.max_turns
