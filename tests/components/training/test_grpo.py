"""GRPO on real dialogues with the real scripted user: two steps of a model of one layer, whole and interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fakes import FakeSimulator, FakeUser
from micro import micro_model
from short_runs import ORDER, PARAMETERS, SPEAKING, Run, StopAtSave, changed, prepared

from rlver.components.domain.persona import Persona
from rlver.components.rollout.episode import Rollout
from rlver.components.training.advantages import group_advantages, mica_advantages, state_advantages, turn_advantages
from rlver.components.training.curves import CurveFile
from rlver.components.training.dialogue_trainer import paid_before
from rlver.components.training.section import UpdateParameters
from rlver.components.training.watch import TrainingDiverged, TrainingLimits, TrainingWatch, measure


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = prepared(tmp_path_factory.mktemp("whole"))
    run.before = run.weights  # type: ignore[attr-defined]
    run.trainer.train()
    return run


@pytest.mark.parametrize("credit", ["dialogue", "turn", "state", "mica"])
def test_credit_is_what_params_say(credit: str, tmp_path: Path) -> None:
    run = prepared(tmp_path, changed(PARAMETERS, credit=credit, steps=1, scale_rewards="group" if credit == "mica" else "none"))
    run.trainer.train()
    (batch,), (rollouts,) = run.batches, run.rollouts
    reward = torch.tensor([(rollout.dialogue.emotion_final or 0) / 100 for rollout in rollouts])
    before = paid_before(rollouts, format_gate=False, cut_off_penalty=0.0)
    expected = {
        "dialogue": group_advantages(reward, 2, "none")[:, None].expand_as(before),
        "turn": turn_advantages(reward, before, 2, "none"),
        "state": state_advantages(reward, before, "none"),
        "mica": mica_advantages(reward, before, 2),
    }[credit]
    assert expected.any()
    for row, rollout in enumerate(rollouts):
        spoken = torch.tensor(rollout.is_policy_T)
        found = batch["advantages"][row, : len(spoken)][spoken]
        torch.testing.assert_close(found, expected[row, torch.tensor(rollout.turn_T)[spoken]].float())


def test_two_steps_are_two_steps_and_move_the_weights(whole: Run) -> None:
    assert whole.trainer.state.global_step == 2
    assert len(whole.rollouts) == len(whole.batches) == 2
    assert not torch.equal(whole.before, whole.weights)  # type: ignore[attr-defined]
    assert torch.isfinite(whole.weights).all()


def test_every_step_rolls_out_its_own_personas_as_whole_groups(whole: Run) -> None:
    for step, rollouts in enumerate(whole.rollouts):
        first, second = ORDER[2 * step : 2 * step + 2]
        assert [rollout.dialogue.persona_id for rollout in rollouts] == [first, first, second, second]
        assert len({rollout.dialogue.dialogue_id for rollout in rollouts}) == 4


def test_what_is_trained_on_is_what_was_sampled(whole: Run) -> None:
    for batch, rollouts in zip(whole.batches, whole.rollouts, strict=True):
        for row, rollout in enumerate(rollouts):
            size = len(rollout.completion_ids)
            assert batch["completion_ids"][row, :size].tolist() == list(rollout.completion_ids)
            assert batch["prompt_ids"][row, -len(rollout.prompt_ids) :].tolist() == list(rollout.prompt_ids)
            group = slice(row // 2 * 2, row // 2 * 2 + 2)
            learns = bool(batch["advantages"][group].any())
            assert batch["tool_mask"][row, :size].tolist() == [int(policy and learns) for policy in rollout.is_policy_T]
            assert not batch["completion_mask"][row, size:].any()


def test_the_users_tokens_get_no_credit_and_a_turns_tokens_share_theirs(whole: Run) -> None:
    credited = 0
    for batch, rollouts in zip(whole.batches, whole.rollouts, strict=True):
        for row, rollout in enumerate(rollouts):
            advantage = batch["advantages"][row].tolist()
            assert not any(advantage[len(rollout.completion_ids) :])
            of_turn: dict[int, set[float]] = {}
            for value, policy, turn in zip(advantage, rollout.is_policy_T, rollout.turn_T, strict=False):
                if policy:
                    of_turn.setdefault(turn, set()).add(value)
                else:
                    assert value == 0.0
            assert all(len(values) == 1 for values in of_turn.values())
            credited += sum(values != {0.0} for values in of_turn.values())
    assert credited > 4


def test_sampled_logprobs_are_those_the_trainer_computes(whole: Run, tmp_path: Path) -> None:
    """On-policy: the first batch was sampled from the weights that the run began with."""
    rollout = whole.rollouts[0][0]
    ids = torch.tensor([[*rollout.prompt_ids, *rollout.completion_ids]])
    with torch.no_grad():
        logits = micro_model(scale=2.0)(ids).logits[0, len(rollout.prompt_ids) - 1 : -1]
    found = logits.log_softmax(-1).gather(-1, torch.tensor(rollout.completion_ids)[:, None]).squeeze(-1)
    policy = torch.tensor(rollout.is_policy_T)
    torch.testing.assert_close(found[policy], torch.tensor(rollout.logprob_T)[policy], atol=1e-4, rtol=0)


def test_every_step_says_how_far_sampler_and_trainer_are_apart(whole: Run) -> None:
    assert all(row["logprob_gap"] < 1e-5 for row in whole.steps.rows())


def test_dialogues_sampled_with_other_weights_stop_the_run(tmp_path: Path) -> None:
    run = prepared(tmp_path)
    make = run.trainer.make_rollouts

    def as_if_sampled_elsewhere(persona_ids: Sequence[str], step: int) -> list[Rollout]:
        """Half of the tokens 0.4 off: 0.2 on average."""
        return [
            replace(rollout, logprob_T=tuple(logprob - 0.4 * (place % 2) for place, logprob in enumerate(rollout.logprob_T)))
            for rollout in make(persona_ids, step)
        ]

    run.trainer.make_rollouts = as_if_sampled_elsewhere
    with pytest.raises(TrainingDiverged, match=r"step 1: sampler and trainer are 0\.[12]\d+ nats a token apart, above rollout"):
        run.trainer.train()


def test_curves_have_one_row_a_step_and_checks_come_at_the_start_and_the_end(whole: Run) -> None:
    rows = whole.steps.rows()
    assert [row["step"] for row in rows] == [1, 2]
    assert all(row["grad_norm"] > 0 and row["n"] == 4 for row in rows)
    assert whole.checks == [0, 2]
    assert sum(line.startswith("step ") and "ETA" in line for line in whole.shown) == 2


def test_an_interrupted_run_that_goes_on_ends_in_the_same_weights(whole: Run, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        prepared(tmp_path, callbacks=[StopAtSave(1)]).trainer.train()
    again = prepared(tmp_path)
    again.steps.keep_until(1)
    again.trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoints" / "checkpoint-1"))
    assert again.trainer.state.global_step == 2
    assert len(again.rollouts) == 1, "the first step is not done again"
    assert [r.dialogue for r in again.rollouts[0]] == [r.dialogue for r in whole.rollouts[1]]
    torch.testing.assert_close(again.weights, whole.weights, atol=1e-6, rtol=0)
    kept = [{name: value for name, value in row.items() if name != "seconds"} for row in again.steps.rows()]
    expected = [{name: value for name, value in row.items() if name != "seconds"} for row in whole.steps.rows()]
    assert [row["step"] for row in kept] == [1, 2]
    assert kept[1] == pytest.approx(expected[1], abs=1e-4)


def test_a_dialogue_that_failed_neither_counts_nor_learns(tmp_path: Path) -> None:
    """The second dialogue's user cannot be reached in its second turn; its partner is left without anybody to be compared with."""
    sessions = 0

    def user_of(persona: Persona, seed: int) -> FakeUser:
        nonlocal sessions
        sessions += 1
        return FakeUser(persona.name or "?", [3, -4, sessions], breaks="appraise 2" if sessions == 2 else None)

    run = prepared(tmp_path, changed(PARAMETERS, steps=1, credit="dialogue", scale_rewards="none"), FakeSimulator(user_of))
    run.trainer.train()
    (batch,), (rollouts,) = run.batches, run.rollouts
    assert [rollout.dialogue.error is None for rollout in rollouts] == [True, False, True, True]
    assert not (batch["tool_mask"] * batch["completion_mask"])[1].any() and not batch["advantages"][1].any()
    assert not batch["advantages"][0].any()
    # finals 42 and 43 of a group: -.005 and +.005
    policy = torch.tensor(rollouts[3].is_policy_T)
    assert batch["advantages"][3][: len(policy)][policy].tolist() == pytest.approx([0.005] * int(policy.sum()))


@pytest.mark.parametrize(
    ("parameters", "strip"),
    [
        (PARAMETERS, False),
        (changed(PARAMETERS, algorithm="ppo", group_size=1, personas_per_step=4), False),
        (changed(PARAMETERS, rows_per_forward=1, updates_per_batch=2), True),  # alone in its forward pass, it forgets nothing
    ],
)
def test_a_dialogue_that_failed_before_its_first_word_does_not_stop_the_others(
    parameters: UpdateParameters, strip: bool, tmp_path: Path
) -> None:
    def user_of(persona: Persona, seed: int) -> FakeUser:
        return FakeUser("U", [3, -4, 1 + len(simulator.sessions)], breaks="open" if len(simulator.sessions) == 1 else None)

    simulator = FakeSimulator(user_of)
    speaking = replace(SPEAKING, thinking=strip, strip_thoughts=strip)
    run = prepared(tmp_path, changed(parameters, steps=1), simulator, speaking=speaking)
    run.trainer.train()
    (batch,), (rollouts,) = run.batches, run.rollouts
    assert [rollout.completion_ids == () for rollout in rollouts] == [False, True, False, False]
    learns = (batch["tool_mask"] * batch["completion_mask"]).any(dim=1)
    assert not learns[1] and not batch["advantages"][1].any() and learns[2:].all()


def test_a_step_from_which_nobody_learns_has_no_entropy_rather_than_none_left(tmp_path: Path) -> None:
    """TRL's mean over no token is 0, and an entropy of 0 stops a run."""
    parameters = changed(PARAMETERS, steps=1, credit="dialogue", scale_rewards="none")
    run = prepared(tmp_path, parameters, FakeSimulator(lambda persona, seed: FakeUser("U", [3, 3, 3])))
    run.trainer.train()
    (row,) = run.steps.rows()
    assert row["learning_share"] == 0
    assert [row[name] for name in ("entropy", "clip_fraction", "logprob_gap")] == [None] * 3


def test_two_updates_share_one_batch(tmp_path: Path) -> None:
    run = prepared(tmp_path, changed(PARAMETERS, updates_per_batch=2))
    run.trainer.train()
    assert run.trainer.state.global_step == 4 and len(run.rollouts) == 2
    assert sorted(path.name for path in (tmp_path / "checkpoints").glob("checkpoint-*")) == ["checkpoint-2", "checkpoint-4"]


def test_a_group_of_equals_leaves_the_loss_and_the_others_weigh_for_it(tmp_path: Path) -> None:
    def user_of(persona: Persona, seed: int) -> FakeUser:
        alone = len(simulator.sessions) == 3
        return FakeUser("U", [3, 3, 9 if alone else 3])

    simulator = FakeSimulator(user_of)
    run = prepared(tmp_path, changed(PARAMETERS, steps=1, credit="dialogue", scale_rewards="none"), simulator)
    run.trainer.train()
    (batch,) = run.batches
    learning = (batch["tool_mask"] * batch["completion_mask"]).any(dim=1)
    assert learning.tolist() == [False, False, True, True]
    assert batch["row_weight"].tolist() == [2.0] * 4
    assert int(batch["num_items_in_batch"]) == int((batch["tool_mask"] * batch["completion_mask"]).sum())
    assert run.steps.rows()[0]["learning_share"] == 0.5


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"repeat_rate": 0.51}, "51% of the turns repeat themselves, above train.max_repeat_rate = 0.5; raise train.beta"),
        ({"cut_off_rate": 0.9}, "90% of the turns are cut off, above train.max_cut_off_rate = 0.5; raise policy.max_reply_tokens"),
        ({"repeat_rate": 0.5, "cut_off_rate": float("nan"), "entropy": 0.02}, None),
    ],
)
def test_what_a_policy_must_stay_within(row: dict[str, float], problem: str | None) -> None:
    found = TrainingLimits(0.02, 0.5, 0.5, 0.05).broken(row)
    assert found is None if problem is None else found is not None and found.startswith(problem)


def watch_of(folder: Path, min_entropy: float = 0.0) -> TrainingWatch:
    limits, nothing = TrainingLimits(min_entropy, 1.0, 1.0, 0.05), measure([])
    steps, checks = (CurveFile(folder / name) for name in ("train", "evaluation"))
    return TrainingWatch(steps, checks, lambda: nothing, lambda step: {}, 5, limits, lambda line: None, True)


@pytest.mark.parametrize("logs", [{"loss": float("nan"), "grad_norm": 1.0}, {"loss": 0.0, "grad_norm": float("inf")}])
def test_a_loss_or_gradient_that_is_not_a_number_stops_the_run(logs: dict[str, float], tmp_path: Path) -> None:
    watch = watch_of(tmp_path)
    with pytest.raises(TrainingDiverged, match=r"step 4: \w+ is (nan|inf); lower train.learning_rate"):
        watch.on_log(None, SimpleNamespace(global_step=4, max_steps=9), None, logs)
    assert [row["step"] for row in watch.steps.rows()] == [4], "what went wrong is in the curve"


def test_weights_that_diverged_are_stopped_before_their_check(tmp_path: Path) -> None:
    """After step 2 a check is due; weights that are no numbers would end it with another advice."""
    run = prepared(tmp_path)
    next(run.model.parameters()).register_hook(lambda gradient: gradient * float("nan") if run.trainer.state.global_step else gradient)
    with pytest.raises(TrainingDiverged, match=r"step 2: grad_norm is nan; lower train\.learning_rate"):
        run.trainer.train()
    assert run.checks == [0]


def test_a_measure_without_a_value_is_a_gap_in_the_curve_and_stops_nothing(tmp_path: Path) -> None:
    """TRL passes on None for the explained variance of returns that are all the same."""
    watch = watch_of(tmp_path)
    watch.on_log(None, SimpleNamespace(global_step=4, max_steps=9), None, {"loss": 0.0, "grad_norm": 1.0, "explained_variance": None})  # type: ignore[dict-item]
    (row,) = watch.steps.rows()
    assert row["explained_variance"] is None and row["loss"] == 0.0


def test_a_policy_that_says_one_thing_only_stops_the_run(tmp_path: Path) -> None:
    watch = watch_of(tmp_path, min_entropy=0.05)
    state = SimpleNamespace(global_step=1, max_steps=9)
    watch.on_log(None, state, None, {"loss": 0.1, "grad_norm": 1.0, "entropy": 0.06})
    with pytest.raises(
        TrainingDiverged, match=r"the entropy fell to 0\.0400 nats a token, below train\.min_entropy = 0\.05; raise train\.beta"
    ):
        watch.on_log(None, state, None, {"loss": 0.1, "grad_norm": 1.0, "entropy": 0.04})


def test_emotions_before_a_turn_are_those_after_the_one_before(whole: Run) -> None:
    rollouts = whole.rollouts[0]
    before = paid_before(rollouts, format_gate=True, cut_off_penalty=0.0)
    for row, rollout in enumerate(rollouts):
        after = [turn.emotion for turn in rollout.dialogue.turns]
        expected = [0.4, *((emotion or 0) / 100 for emotion in after[:-1])]
        assert before[row, : len(expected)].tolist() == pytest.approx(expected)
        assert before[row, len(expected) :].isnan().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows_per_forward": 3}, "must be divisible by train.rows_per_forward x processes = 3"),
        ({"steps": 3}, "expected 3 x 2 persona ids, got 4"),
    ],
)
def test_sizes_that_would_end_in_a_run_without_steps_are_refused(change: dict[str, int], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        prepared(tmp_path, changed(PARAMETERS, **change))  # type: ignore[arg-type]
