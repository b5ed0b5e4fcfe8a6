"""verl's worker holds our dialogues: token for token our own, with the reward that is ours. It needs verl's environment (docs/adapters.md)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl", reason="verl has an environment of its own (docs/adapters.md)")

import fakes
import verl
import verl_worker
from hydra import compose, initialize_config_dir
from hydra.utils import get_class
from micro import micro_tokenizer
from omegaconf import OmegaConf, open_dict
from replying import ROOT
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.utils.dataset.rl_dataset import get_dataset_class
from verl_worker import Micro, Served, configuration, generated, our_own, project_in, rows_of

from rlver.components.adapters import verl as adapter
from rlver.components.adapters.lent import NotScored
from rlver.components.adapters.verl_dataset import NAME, SupportDataset
from rlver.components.domain.emotion import emotion_reward
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.settings.settings import load_settings


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return project_in(tmp_path)


def test_verl_s_worker_gives_token_for_token_the_episode_of_our_own_loop(project: Path) -> None:
    config = configuration(project, "direct")
    rows = rows_of(config, copies=2)
    served = Served(Micro().sample)
    batch = generated(config, served, rows)
    expected = our_own(project, "direct", rows, Micro())
    assert len(batch) == 4 and {row["extra_info"]["seed"] for row in rows} == {7}
    for place, rollout in enumerate(expected):
        tokens = rollout.seen()
        prompt, response = batch.batch["prompts"][place], batch.batch["responses"][place]
        real = batch.batch["attention_mask"][place].bool()
        assert prompt[real[: len(prompt)]].tolist() == list(rollout.prompt_ids)
        assert response[real[len(prompt) :]].tolist() == [token for token, _, _ in tokens]
        mask = batch.batch["response_mask"][place][: len(tokens)].tolist()
        assert mask == [int(said) for _, said, _ in tokens] and 0 in mask and mask[-1] == 1
        logprobs = batch.batch["rollout_log_probs"][place][: len(tokens)].tolist()
        assert logprobs == pytest.approx([logprob for _, _, logprob in tokens], abs=1e-4) and min(logprobs) < -0.1
        scored = batch.batch["rm_scores"][place]
        reward = emotion_reward(rollout.dialogue, rollout.well_formed, format_gate=False)
        assert scored[len(tokens) - 1].item() == pytest.approx(reward) and scored.count_nonzero() <= 1
        held = json.loads(batch.non_tensor_batch["dialogue"][place])
        own = rollout.dialogue.model_dump(mode="json")
        assert {**held, "dialogue_id": ""} == {**own, "dialogue_id": ""}
        assert sum(batch.non_tensor_batch["turn_scores"][place]) == pytest.approx((own["emotion_final"] - own["emotion_start"]) / 100)
    assert len({json.loads(one)["dialogue_id"] for one in batch.non_tensor_batch["dialogue"]}) == 4
    assert all(told["stop_token_ids"] == [micro_tokenizer().eos_token_id] and told["logprobs"] is True for _, told in served.asked)


def a_loop(config: Any, project: Path, variant: str, served: Served) -> adapter.SupportAgentLoop:
    return adapter.SupportAgentLoop(
        trainer_config=DictConfigWrap(config),
        server_manager=served,
        tokenizer=micro_tokenizer(),
        processor=None,
        dataset_cls=SupportDataset,
        data_config=DictConfigWrap(config.data),
        params=str(project / "params.yaml"),
        variant=variant,
    )


SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True}


def thinks(request: SampleRequest, turn: int) -> Sample:
    tokenizer = micro_tokenizer()
    ids = [*tokenizer.encode(f"<think>t{turn}</think>I see.", add_special_tokens=False), tokenizer.eos_token_id]
    return Sample(tuple(ids), tuple(-0.1 * (turn + 1) for _ in ids), True)


def test_a_turn_is_an_output_of_its_own_where_thoughts_leave_the_context(project: Path) -> None:
    turns = 0

    async def says(request: SampleRequest) -> Sample:
        nonlocal turns
        turns += 1
        return thinks(request, turns - 1)

    config = configuration(project, "strip")
    served = Served(says)

    async def run() -> Any:
        return await a_loop(config, project, "strip", served).run(SAMPLING, **rows_of(config)[0])

    outputs = asyncio.run(run())
    assert len(outputs) == turns == 3 and len({one.reward_score for one in outputs}) == 1
    for turn, (one, (request, _)) in enumerate(zip(outputs, served.asked, strict=True)):
        said = sum(one.response_mask)
        assert [*one.prompt_ids, *one.response_ids[:-said]] == list(request.context_ids), "what the policy read, and no thought before"
        assert one.response_mask == [0] * (len(one.response_ids) - said) + [1] * said
        assert one.response_logprobs == pytest.approx([0.0] * (len(one.response_ids) - said) + [-0.1 * (turn + 1)] * said)
        assert not any(f"<think>t{before}" in micro_tokenizer().decode(request.context_ids) for before in range(turn))
        assert f"<think>t{turn}</think>" in micro_tokenizer().decode(one.response_ids[-said:])
    assert (outputs[0].extra_fields["min_global_steps"], outputs[0].extra_fields["max_global_steps"]) == (1, 3)


@pytest.mark.parametrize("reason", ["user", "policy"])
def test_a_dialogue_that_failed_is_an_error_and_no_zero(project: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    config = configuration(project, "direct")
    settings, simulator = adapter.environment(str(project / "params.yaml"), "direct")
    if reason == "user":
        away = fakes.FakeSimulator(lambda persona, seed: fakes.FakeUser("Ann", [3, 3, 3], breaks="appraise 2"))
        monkeypatch.setattr(adapter, "environment", lambda *_: (settings, away))
    served = Served(Micro().sample, stop_reason="aborted" if reason == "policy" else "completed")

    async def run() -> Any:
        return await a_loop(config, project, "direct", served).run(SAMPLING, **rows_of(config)[0])

    with pytest.raises(NotScored, match="no answer to appraise 2" if reason == "user" else "ended by aborted"):
        asyncio.run(run())
    assert simulator is not None


@pytest.mark.parametrize(
    ("variant", "changed", "message"),
    [
        ("direct", "actor_rollout_ref.rollout.calculate_log_probs=False", "calculate_log_probs=True"),
        ("direct", "actor_rollout_ref.rollout.response_length=1499", "response_length is 1499.*max_context_tokens = 1500"),
        ("strip", "trainer.use_v1=False", "needs trainer.use_v1=True"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_by_name(project: Path, variant: str, changed: str, message: str) -> None:
    async def made() -> None:
        a_loop(configuration(project, variant, changed), project, variant, Served(Micro().sample))

    with pytest.raises(ValueError, match=message):
        asyncio.run(made())


def test_users_who_are_language_models_and_other_rewards_are_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = "simulator: {kind: llm, llm: {appraiser: {model: m}, speaker: {model: m}}}\n"
    (project / "params" / "llm.yaml").write_text(models)
    with pytest.raises(ValueError, match="not lent to verl yet"):
        adapter.environment(str(project / "params.yaml"), "llm")
    settings = load_settings(project / "params.yaml")
    other = settings.model_copy(update={"reward": settings.reward.model_copy(update={"kind": "turns"})})
    monkeypatch.setattr(adapter, "load_settings", lambda *_, **__: other)
    with pytest.raises(ValueError, match=r"reward\.kind is turns"):
        adapter.environment(str(project / "params.yaml"), "another")


def paths(config: Any) -> set[str]:
    if not isinstance(config, dict):
        return {""}
    return {f"{name}.{path}" if path else name for name, value in config.items() for path in paths(value)} | {""}


@pytest.mark.parametrize("name", ["grpo", "ppo"])
def test_a_recipe_loads_in_verl_and_names_only_what_verl_knows(name: str) -> None:
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
        known = OmegaConf.to_container(compose("ppo_trainer"))
    with initialize_config_dir(str(ROOT / "recipes" / "verl"), version_base=None):
        recipe = compose(name)
    assert paths(OmegaConf.to_container(recipe)) <= paths(known)
    told, loops = recipe.actor_rollout_ref.rollout, OmegaConf.load(ROOT / recipe.actor_rollout_ref.rollout.agent.agent_loop_config_path)
    assert told.response_length == 8192 and told.calculate_log_probs and told.agent.default_agent_loop == NAME == loops[0].name
    assert get_class(loops[0]._target_) is adapter.SupportAgentLoop and get_dataset_class(recipe.data) is SupportDataset
    assert (recipe.algorithm.adv_estimator, told.n) == {"grpo": ("grpo", 4), "ppo": ("gae", 1)}[name]
    assert recipe.actor_rollout_ref.actor.strategy == "fsdp2" and recipe.trainer.logger == ["console"]


def test_verl_finds_the_loop_by_its_name(project: Path) -> None:
    config = configuration(project, "direct")
    with open_dict(config):
        config.actor_rollout_ref.rollout.agent.default_agent_loop = "nobody"
    rows = [{name: value for name, value in row.items() if name != "agent_name"} for row in rows_of(config)]
    with pytest.raises(AssertionError, match="nobody not registered"):
        generated(config, Served(Micro().sample), rows)
    assert verl_worker.LONGEST >= 1500
