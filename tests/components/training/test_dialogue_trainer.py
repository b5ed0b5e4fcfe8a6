"""What every algorithm's update rests on: turns that the format gate has decided, ratios to what was sampled, the divisor of the loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeSimulator, FakeUser, a_dialogue
from short_runs import PARAMETERS, RULES, Run, changed, prepared

from rlver.components.domain.emotion import emotion_reward
from rlver.components.rollout.episode import Rollout
from rlver.components.training.dialogue_trainer import paid_before
from rlver.components.training.watch import TrainingLimits


@pytest.mark.parametrize(("format_gate", "turns"), [(True, 2), (False, 3)])
def test_what_follows_a_malformed_turn_is_no_turn_where_the_format_is_gated(format_gate: bool, turns: int) -> None:
    """Malformed in the second of three turns."""
    rollout = Rollout(a_dialogue("d", [3, -4, 5]), (), (), (), (), (), (), malformed_turn=1, cut_off_turns=())
    before = paid_before([rollout], format_gate, 0.0)
    assert before[0, :turns].tolist() == pytest.approx([0.4, 0.43, 0.39][:turns])
    assert before[0, turns:].isnan().all()


def _advantage_by_turn(batch: dict[str, Any], row: int) -> list[float]:
    """That of all policy tokens of each turn; they must agree."""
    learns = (batch["tool_mask"][row] * batch["completion_mask"][row]).bool()
    found = []
    for turn in range(3):
        of_turn = batch["advantages"][row][learns & (batch["turn"][row] == turn)]
        assert of_turn.max() - of_turn.min() < 1e-4
        found.append(float(of_turn[0]))
    return found


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_a_cut_off_turn_costs_the_policy_at_that_turn_and_no_later_one(tmp_path: Path, algorithm: str) -> None:
    """Two users who rise alike; one of each pair of replies in the second turn is cut off."""
    parameters = changed(PARAMETERS, steps=1, algorithm=algorithm, scale_rewards="none", cut_off_penalty=0.2, dense=algorithm == "ppo")
    run = prepared(tmp_path, parameters, FakeSimulator(lambda persona, seed: FakeUser("U", [5, 5, 5])))
    make = run.trainer.make_rollouts
    run.trainer.make_rollouts = lambda names, step: [
        replace(rollout, cut_off_turns=(1,) if index % 2 else ()) for index, rollout in enumerate(make(names, step))
    ]
    run.trainer.train()
    batch = run.batches[0]
    whole, cut = (_advantage_by_turn(batch, row) for row in (0, 1))
    if algorithm == "grpo":
        assert [one - other for one, other in zip(whole, cut, strict=True)] == pytest.approx([0.4, 0.4, 0.0], abs=1e-6)
    else:
        assert cut[0] < whole[0] - 0.1 and cut[1] < whole[1] - 0.1 and cut[2] == pytest.approx(whole[2], abs=1e-4)
    assert run.trainer.rewards().tolist() == pytest.approx([0.55, 0.35, 0.55, 0.35])


@pytest.mark.parametrize("credit", ["turn", "state", "mica", "dialogue"])
def test_turns_after_a_malformed_one_earn_nothing_and_are_nobodys_baseline(tmp_path: Path, credit: str) -> None:
    """Two users who rise alike; one dialogue of each pair is malformed in its first turn, so it is worth 0 from then on."""
    scale = "group" if credit == "mica" else "none"
    parameters = changed(PARAMETERS, steps=1, credit=credit, scale_rewards=scale, format_gate=True, thinking=True)
    run = prepared(
        tmp_path, parameters, FakeSimulator(lambda persona, seed: FakeUser("U", [5, 5, 5])),
        score=lambda rollout: emotion_reward(rollout.dialogue, rollout.well_formed, format_gate=True),
    )  # fmt: skip
    make = run.trainer.make_rollouts
    run.trainer.make_rollouts = lambda names, step: [
        replace(rollout, malformed_turn=0 if index % 2 else None) for index, rollout in enumerate(make(names, step))
    ]
    run.trainer.train()
    batch = run.batches[0]

    if credit == "turn":
        # to go from turn 1: .55 - .4 and 0 - .4; after it the other has nobody to be compared with but the other group's: the same
        assert _advantage_by_turn(batch, 0) == pytest.approx([0.55, 0, 0])
        assert _advantage_by_turn(batch, 1) == pytest.approx([-0.55, 0, 0])
    elif credit in ("state", "mica"):
        first, *after = _advantage_by_turn(batch, 1)
        assert first < 0 and after == pytest.approx([0, 0], abs=1e-6)
    else:
        assert _advantage_by_turn(batch, 1) == pytest.approx([-0.275] * 3, abs=1e-4)


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_a_dialogue_that_a_reward_cannot_score_neither_counts_nor_learns(tmp_path: Path, algorithm: str) -> None:
    def score(rollout: Rollout) -> float | None:
        return None if rollout.dialogue.dialogue_id == "step0/1" else emotion_reward(rollout.dialogue, True, format_gate=False)

    simulator = FakeSimulator(lambda persona, seed: FakeUser("U", [3, -4, 1 + len(simulator.sessions)]))
    run = prepared(tmp_path, changed(PARAMETERS, steps=1, algorithm=algorithm), simulator, score=score)
    run.trainer.train()
    (batch,) = run.batches
    assert (batch["tool_mask"] * batch["completion_mask"]).any(dim=1).tolist() == [True, False, True, True]
    assert batch["row_weight"].tolist() == pytest.approx([4 / 3] * 4) and run.steps.rows()[0]["learning_share"] == 0.75


def test_what_sampler_and_trainer_differ_by_is_corrected(tmp_path: Path) -> None:
    """Sampled with e times less than the trainer gives: the ratio is e, beyond 1.28, so what went well is clipped and what went badly
    weighs e times as much. With a cap of 1.5, which e is beyond too, nothing is left to learn from."""

    def run(off: float, ratio_cap: float) -> Run:
        run = prepared(
            tmp_path / f"{off}-{ratio_cap}", changed(PARAMETERS, steps=1, ratio_cap=ratio_cap), limits=TrainingLimits(0, 1, 1, 9)
        )
        make = run.trainer.make_rollouts
        run.trainer.make_rollouts = lambda names, step: [
            replace(rollout, logprob_T=tuple(logprob - off for logprob in rollout.logprob_T)) for rollout in make(names, step)
        ]
        run.trainer.train()
        return run

    plain, corrected, capped = run(0.0, 4.0).steps.rows()[0], run(1.0, 4.0).steps.rows()[0], run(1.0, 1.5).steps.rows()[0]
    assert plain["clip_fraction"] == 0 and plain["grad_norm"] > 0
    assert corrected["logprob_gap"] == pytest.approx(1.0, abs=1e-4) and 0 < corrected["clip_fraction"] < 1
    assert corrected["grad_norm"] != pytest.approx(plain["grad_norm"], rel=0.1)
    assert capped["grad_norm"] == 0


def test_the_constant_normaliser_is_all_that_the_policy_can_say(tmp_path: Path) -> None:
    """No clipping, no KL, one forward pass: the gradient of a sum over tokens, divided by 4 dialogues x most_tokens."""

    def grad_norm(most_tokens: int) -> float:
        parameters = changed(
            PARAMETERS,
            steps=1,
            loss_type="dr_grpo",
            max_reply_tokens=most_tokens // RULES.max_turns,
            max_grad_norm=1e9,
            rows_per_forward=4,
            learning_rate=1e-4,
        )
        run = prepared(tmp_path / str(most_tokens), parameters)
        run.trainer.train()
        return float(run.steps.rows()[0]["grad_norm"])

    assert grad_norm(18) == pytest.approx(2 * grad_norm(36), rel=1e-3)
