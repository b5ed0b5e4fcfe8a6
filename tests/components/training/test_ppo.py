"""PPO on real dialogues: critic, masks, one dialogue a persona, resume."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import FakeSimulator, FakeUser
from micro import micro_model
from short_runs import PARAMETERS, SPEAKING, Run, changed, prepared, whole_and_resumed

from rlver.components.domain.emotion import emotion_reward
from rlver.components.domain.persona import Persona
from rlver.components.training.ppo import Critic, explained_variance, value_losses

PPO = changed(PARAMETERS, algorithm="ppo", personas_per_step=2, group_size=1, critic_learning_rate=0.05)


@pytest.fixture(scope="module", params=["shared token", "separate turn"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    critic, level = request.param.split()
    run = prepared(tmp_path_factory.mktemp("ppo"), changed(PPO, critic=critic, gae_level=level))
    run.before = run.weights  # type: ignore[attr-defined]
    run.trainer.train()
    return run


def test_one_dialogue_a_persona_trains_policy_and_critic(whole: Run) -> None:
    assert whole.trainer.state.global_step == 2
    assert [len(rollouts) for rollouts in whole.rollouts] == [2, 2]
    assert not torch.equal(whole.before, whole.weights) and torch.isfinite(whole.weights).all()  # type: ignore[attr-defined]
    assert whole.model.critic.value_head.weight.abs().sum() > 0
    assert all(row["value_loss"] > 0 for row in whole.steps.rows())


def test_no_weight_decays(whole: Run) -> None:
    assert [group["weight_decay"] for group in whole.trainer.optimizer.param_groups] == [0.0, 0.0]


def test_the_users_tokens_have_no_advantage_and_no_value_to_fit(whole: Run) -> None:
    for batch, rollouts in zip(whole.batches, whole.rollouts, strict=True):
        for row, rollout in enumerate(rollouts):
            policy = torch.zeros(batch["advantages"].shape[1], dtype=torch.bool)
            policy[: len(rollout.is_policy_T)] = torch.tensor(rollout.is_policy_T)
            assert not batch["advantages"][row][~policy].any()
            assert not batch["value_mask"][row][~policy].any()
            assert batch["advantages"][row][policy].any()


def test_values_are_fitted_where_the_policy_acts_with_the_reward_as_target(whole: Run) -> None:
    """At first every value is 0, so with gamma = lambda = 1 each target is the dialogue's reward."""
    batch, rollouts = whole.batches[0], whole.rollouts[0]
    by_turn = whole.trainer.update.train.gae_level == "turn"
    for row, rollout in enumerate(rollouts):
        fitted = batch["value_mask"][row].bool()
        assert int(fitted.sum()) == (len(rollout.dialogue.turns) if by_turn else sum(rollout.is_policy_T))
        assert batch["returns"][row][fitted].tolist() == pytest.approx([(rollout.dialogue.emotion_final or 0) / 100] * int(fitted.sum()))


def test_the_critics_level_is_the_mean_return_of_the_last_batch_and_old_values_move_with_it(whole: Run) -> None:
    first, last = (batch["returns"][batch["value_mask"].bool()].mean() for batch in whole.batches)
    assert float(whole.model.critic.plane) == pytest.approx(float(last))
    assert whole.batches[0]["old_values"][whole.batches[0]["value_mask"].bool()].tolist() == pytest.approx(
        [float(first)] * int(whole.batches[0]["value_mask"].sum())
    )


def test_a_critic_that_sees_the_emotion_starts_from_the_plane_through_the_last_returns(tmp_path: Path) -> None:
    run = prepared(tmp_path, changed(PPO, critic_sees_emotion=True))
    run.trainer.train()
    for batch, rollouts in zip(run.batches, run.rollouts, strict=True):
        for row, rollout in enumerate(rollouts):
            felt = torch.tensor([rollout.dialogue.emotion_start, *(turn.emotion or 0 for turn in rollout.dialogue.turns)])
            spoken = torch.tensor(rollout.is_policy_T)
            turn = torch.tensor(rollout.turn_T)[spoken]
            expected = torch.stack([torch.ones_like(turn), felt[turn] / 100, turn], dim=-1).float()
            torch.testing.assert_close(batch["told"][row, : len(spoken)][spoken], expected)
    for batch, level in ((run.batches[0], run.batches[0]["old_values"]), (run.batches[1], run.model.critic.level(run.batches[1]["told"]))):
        acts = batch["value_mask"].bool()
        left = batch["returns"][acts] - level[acts]
        assert batch["told"][acts].T @ left == pytest.approx(np.zeros(3), abs=1e-3), "nothing that a plane could explain is left"
    assert run.model.critic.plane.all() and left.abs().sum() > 0


def test_the_level_is_the_same_however_the_batch_is_divided_over_processes() -> None:
    told, returned = torch.cat([torch.ones(20, 1), torch.rand(20, 2)], dim=1), torch.rand(20)
    whole, part = (Critic(micro_model(), separate=False, told=3) for _ in range(2))
    whole.fit_level(told, returned, lambda sums: sums)
    others = iter([told[12:].T.double() @ told[12:].double(), told[12:].T.double() @ returned[12:].double()])
    part.fit_level(told[:12], returned[:12], lambda sums: sums + next(others))
    torch.testing.assert_close(part.level(told), whole.level(told))
    before = part.level(told)
    part.fit_level(told[:0], returned[:0], lambda sums: sums)
    torch.testing.assert_close(part.level(told), before)


def test_a_level_over_states_that_are_all_alike_is_their_mean() -> None:
    critic = Critic(micro_model(), separate=False, told=3)
    told, returned = torch.tensor([[1.0, 0.5, 0.0]]).repeat(9, 1), torch.rand(9)
    critic.fit_level(told, returned, lambda sums: sums)
    torch.testing.assert_close(critic.level(told), returned.mean().expand(9))


def test_advantages_are_whitened_over_the_policys_tokens(whole: Run) -> None:
    for batch in whole.batches:
        mask = (batch["completion_mask"] * batch["tool_mask"]).bool()
        values = batch["advantages"][mask]
        assert float(values.mean()) == pytest.approx(0.0, abs=1e-4)
        assert float(values.std(unbiased=False)) == pytest.approx(1.0, abs=1e-2)


@pytest.mark.parametrize("strip", [False, True])
def test_a_failed_dialogue_teaches_neither_policy_nor_critic(strip: bool, tmp_path: Path) -> None:
    """With dense rewards and values of 0, the first turn's return is the reward less the emotion at the start: 44 - 40 points."""

    def user_of(persona: Persona, seed: int) -> FakeUser:
        return FakeUser("U", [3, -4, 5], breaks="appraise 2" if len(simulator.sessions) == 1 else None)

    simulator = FakeSimulator(user_of)
    parameters = changed(PPO, steps=1, gae_level="turn", dense=True)
    speaking = replace(SPEAKING, thinking=strip, strip_thoughts=strip)
    run = prepared(tmp_path, parameters, simulator, speaking=speaking)
    run.trainer.train()
    (batch,), (rollouts,) = run.batches, run.rollouts
    assert [rollout.dialogue.error is None for rollout in rollouts] == [True, False]
    assert not batch["advantages"][1].any() and not batch["value_mask"][1].any()
    assert not (batch["tool_mask"] * batch["completion_mask"])[1].any()
    returns = batch["returns"][0][batch["value_mask"][0].bool()]
    assert returns.tolist() == pytest.approx([0.04, 0.01, 0.05])


@pytest.mark.parametrize("level", ["token", "turn"])
def test_turns_after_a_malformed_one_teach_neither_policy_nor_critic(level: str, tmp_path: Path) -> None:
    """Two users who rise alike; the second dialogue is malformed in its first of three turns, so it is worth 0 from then on."""
    parameters = changed(PPO, steps=1, gae_level=level, critic_sees_emotion=True, format_gate=True, thinking=True)
    run = prepared(
        tmp_path, parameters, FakeSimulator(lambda persona, seed: FakeUser("U", [5, 5, 5])),
        score=lambda rollout: emotion_reward(rollout.dialogue, rollout.well_formed, format_gate=True),
    )  # fmt: skip
    make = run.trainer.make_rollouts
    run.trainer.make_rollouts = lambda names, step: [
        replace(rollout, malformed_turn=0 if place else None) for place, rollout in enumerate(make(names, step))
    ]
    run.trainer.train()
    (batch,) = run.batches
    for name in ("advantages", "value_mask"):
        taught = [{int(turn) for turn in batch["turn"][row][batch[name][row] != 0]} for row in range(2)]
        assert taught == [{0, 1, 2}, {0}], name


def test_an_interrupted_run_that_goes_on_ends_in_the_same_policy_and_critic(tmp_path: Path) -> None:
    whole, again = whole_and_resumed(tmp_path, PPO)
    assert len(again.rollouts) == 1
    torch.testing.assert_close(again.weights, whole.weights, atol=1e-6, rtol=0)


def test_a_separate_critic_leaves_the_policys_trunk_alone_and_a_shared_one_does_not() -> None:
    ids = torch.tensor([[5, 6, 7]])
    for separate in (True, False):
        model = micro_model()
        critic = Critic(model, separate)
        torch.nn.init.ones_(critic.value_head.weight)
        hidden = model.base_model(ids).last_hidden_state
        critic(hidden, ids, torch.ones_like(ids)).sum().backward()
        touched = any(weight.grad is not None and bool(weight.grad.any()) for weight in model.parameters())
        assert touched is not separate


def test_a_value_gains_nothing_from_moving_further_than_the_clip() -> None:
    value: Any = torch.tensor([0.5, 0.9], requires_grad=True)
    losses = value_losses(value, torch.tensor([0.4, 0.4]), torch.tensor([1.0, 1.0]), clip=0.2)
    assert losses.tolist() == pytest.approx([0.5 * 0.25, 0.5 * 0.16])  # the second counts as .6
    losses.sum().backward()
    assert value.grad.tolist() == pytest.approx([-0.5, 0.0])
    assert value_losses(value, torch.tensor([0.4, 0.4]), torch.tensor([1.0, 1.0]), clip=0).tolist() == pytest.approx([0.125, 0.005])


def test_explained_variance() -> None:
    returned = torch.tensor([0.0, 1.0, 2.0])
    assert explained_variance(returned, returned) == 1.0
    assert explained_variance(torch.ones(3), returned) == 0.0
    assert explained_variance(-returned, returned) == -3.0
    assert math.isnan(explained_variance(returned, torch.ones(3)))
    assert math.isnan(explained_variance(returned, torch.full((3,), 0.42))), "but for rounding they are equal"
    assert math.isnan(explained_variance(torch.ones(0), torch.ones(0)))
    value, returned = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([2.0, 2.0, 5.0, 4.0])
    off, other, others_off = returned - value, returned[2:], (returned - value)[2:]
    elsewhere = iter(
        [
            torch.stack([torch.tensor(2.0), other.sum(), others_off.sum()]),
            torch.stack([(other - returned.mean()).square().sum(), (others_off - off.mean()).square().sum()]),
        ]
    )
    of_two_processes = explained_variance(value[:2], returned[:2], lambda sums: sums + next(elsewhere))
    assert of_two_processes == pytest.approx(explained_variance(value, returned))


def test_values_stay_float32_where_the_policy_computes_in_bfloat16():
    critic = Critic(micro_model(), separate=False)
    torch.nn.init.normal_(critic.value_head.weight)
    hidden, ids = torch.randn(2, 3, critic.value_head.in_features), torch.zeros(2, 3, dtype=torch.long)
    plain = critic(hidden, ids, torch.ones_like(ids))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(critic(hidden, ids, torch.ones_like(ids)), plain)
