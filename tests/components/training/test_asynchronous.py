"""TRL's asynchronous trainer learns from our dialogues. Two of its parts need a GPU: its attention kernel, for which plain torch stands in here, and
its look at the speed of the card. All else is theirs."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import plain_attention
import pytest
import torch
from fakes import people
from micro import micro_model, micro_tokenizer
from short_runs import PARAMETERS, changed
from transformers import TrainerCallback
from trl.experimental.async_grpo import AsyncGRPOTrainer

from rlver.components.domain.emotion import EmotionRules, emotion_reward
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.token_policy import Speaking, TokenPolicy
from rlver.components.policy.transformers_sampler import TransformersSampler
from rlver.components.rollout.episode import Job, Rollout, TooManyFailures, run_episodes
from rlver.components.training.advantages import turn_advantages
from rlver.components.training.asynchronous import Credit, DialogueWorker, WeightsInProcess, async_trainer, samples_of
from rlver.components.training.dialogue_trainer import paid_before
from rlver.components.users.scripted.simulator import ScriptedSimulator

RULES, GROUP = EmotionRules(max_turns=3), 4
PERSONAS = {one.persona_id: one for one in people()[0]}


def score(rollout: Rollout) -> float | None:
    return emotion_reward(rollout.dialogue, rollout.well_formed, format_gate=False)


CREDIT = Credit(score, GROUP)


class Talk:
    """Holds dialogues with a micro model, as `Conversation.hold` does."""

    def __init__(self, strip: bool = False) -> None:
        self.tokenizer, self.model = micro_tokenizer(), micro_model(scale=2.0)
        self.sampler = TransformersSampler(self.model, self.tokenizer.eos_token_id, 1.0, 1.0, rows=16, capacity=900)
        self.policy = TokenPolicy(self.sampler, ChatFormat(self.tokenizer, "Be kind."), Speaking("micro", strip, strip, 6, 900))
        self.held: list[list[Rollout]] = []

    def hold(self, persona_ids: Sequence[str], number: int) -> list[Rollout]:
        jobs = [Job(f"{number}/{place}", PERSONAS[name], number) for place, name in enumerate(persona_ids)]
        self.sampler.start()
        self.held.append(asyncio.run(run_episodes(jobs, ScriptedSimulator("vanilla"), self.policy, RULES, concurrency=16)))
        return self.held[-1]


def batch(size: int = 2) -> list[str]:
    return [name for name in list(PERSONAS)[:size] for _ in range(GROUP)]


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    plain_attention.put_in(monkeypatch)

    def made(talk: Talk, weights: WeightsInProcess, steps: int, *callbacks: TrainerCallback, moments: bool = True) -> AsyncGRPOTrainer:
        talk.model.save_pretrained(tmp_path / "model")
        talk.tokenizer.save_pretrained(tmp_path / "model")
        update = changed(PARAMETERS, steps=steps, personas_per_step=2, group_size=GROUP, rows_per_forward=8, gradient_checkpointing=False)
        update = changed(update, checkpoint_optimizer=moments)
        return async_trainer(
            tmp_path / "model", talk.tokenizer, list(PERSONAS)[:2], update, tmp_path / "out", score, talk.hold, weights, 0.0, callbacks
        )

    return made


def test_trl_s_trainer_scores_our_tokens_as_they_were_sampled_and_learns(trainer: Any) -> None:
    talk, speaks_as_trained = Talk(), list[bool]()

    class Check(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            both = zip(talk.model.parameters(), model.parameters(), strict=True)
            speaks_as_trained.append(all(torch.equal(own, learned) for own, learned in both))

        on_train_end = on_step_begin

    asynchronous = trainer(talk, WeightsInProcess(talk.model), 3, Check())
    before = torch.cat([weight.detach().flatten().clone() for weight in talk.model.parameters()])
    asynchronous.train()
    logged = [row for row in asynchronous.state.log_history if "ratio" in row]
    assert len(logged) == 3 and len(talk.held) >= 2
    assert logged[0]["ratio"] == pytest.approx(1, abs=1e-4) and logged[0]["kl"] == pytest.approx(
        0, abs=1e-5
    )  # the same weights, the same tokens
    after = torch.cat([weight.detach().flatten() for weight in talk.model.parameters()])
    trained = torch.cat([weight.detach().flatten() for weight in asynchronous.model.parameters()])
    assert not torch.equal(after, before), "what dialogues are sampled with was never refreshed"
    assert torch.equal(after, trained), "the last weights were sent"
    assert speaks_as_trained == [True] * 4, "a check after a step hears the weights of that step"


@pytest.mark.parametrize("moments", [True, False])
def test_its_checkpoints_hold_the_moments_or_not(moments: bool, trainer: Any, tmp_path: Path) -> None:
    talk = Talk()
    trainer(talk, WeightsInProcess(talk.model), 1, moments=moments).train()
    saved = torch.load(tmp_path / "out" / "checkpoint-1" / "optimizer.pt", weights_only=True)
    assert bool(saved["state"]) is moments and saved["param_groups"]


def test_a_sample_is_a_turn_with_all_that_was_read_before_it_and_the_credit_of_that_turn() -> None:
    rollouts = Talk().hold(batch(), 0)
    samples = list(samples_of(rollouts, CREDIT, version=5, first_group=7))
    expected = turn_advantages(torch.tensor([float(score(one) or 0) for one in rollouts]), paid_before(rollouts, False, 0.0), GROUP, "none")
    assert sorted(one.advantage for one in samples) == pytest.approx(
        sorted(value for value in expected.flatten().tolist() if value and value == value)
    )
    assert {one.model_version for one in samples} == {5} and {one.group_id for one in samples} <= {7, 8}
    for one in samples:
        rollout = next(held for held in rollouts if list(one.input_ids) == [*held.prompt_ids, *held.completion_ids][: len(one.input_ids)])
        places = [place for place, trains in enumerate(one.completion_mask) if trains]
        turn = {rollout.turn_T[place - len(rollout.prompt_ids)] for place in places}
        assert len(turn) == 1 and all(rollout.is_policy_T[place - len(rollout.prompt_ids)] for place in places)
        assert [one.old_log_probs[place] for place in places] == pytest.approx(
            [rollout.logprob_T[place - len(rollout.prompt_ids)] for place in places]
        )
        assert not any(value for place, value in enumerate(one.old_log_probs) if place not in places)
    told = [one for one in samples if one.metrics]
    assert {one.metrics["rewards/emotion"] for one in told} <= {score(one) for one in rollouts} and len(told) <= len(rollouts) < len(
        samples
    )


def test_a_thought_that_left_the_context_is_in_its_own_turn_alone() -> None:
    stays = (True, True, False, True, True)
    rollout = replace(
        Talk().hold(batch(1), 0)[0], prompt_ids=(1,), completion_ids=(2, 3, 4, 5, 6), turn_T=(0, 0, 0, 1, 1), in_later_context_T=stays,
        is_policy_T=(True, True, True, False, True), logprob_T=(-1.0, -2.0, -3.0, 0.0, -4.0), cut_off_turns=(),
    )  # fmt: skip
    one, other = rollout.dialogue.turns[:2]
    low = replace(rollout, dialogue=rollout.dialogue.model_copy(update={"turns": (one, other), "emotion_final": 0}))
    high = replace(rollout, dialogue=rollout.dialogue.model_copy(update={"turns": (one, other), "emotion_final": 100}))
    samples = list(samples_of([low, high], Credit(score, 2), 0))
    assert [list(sample.input_ids) for sample in samples] == [[1, 2, 3, 4], [1, 2, 3, 5, 6]] * 2
    assert [list(sample.completion_mask) for sample in samples] == [[0, 1, 1, 1], [0, 0, 0, 0, 1]] * 2
    assert list(samples[1].old_log_probs) == [0, 0, 0, 0, -4]
    assert samples[0].advantage < 0 < samples[2].advantage


def failed(rollout: Rollout) -> Rollout:
    dialogue = rollout.dialogue.model_copy(update={"error": "SimulatorUnavailable: away", "emotion_final": None, "stop_reason": "failed"})
    return replace(rollout, dialogue=dialogue)


def test_dialogues_that_failed_make_no_sample_and_too_many_end_the_training() -> None:
    talk = Talk()
    rollouts = talk.hold(batch(1), 0)
    samples = list(samples_of([failed(rollouts[0]), *rollouts[1:]], CREDIT, 0))
    own, others = ([*one.prompt_ids, *(token for token, _, _ in one.seen())] for one in (rollouts[0], rollouts[1]))
    assert own != others and samples and own not in [list(one.input_ids) for one in samples]
    assert own in [list(one.input_ids) for one in samples_of(rollouts, CREDIT, 0)], "it would have made one"
    worker = DialogueWorker(
        lambda ids, number: [failed(one) for one in talk.hold(ids, number)], [batch(1)], CREDIT, WeightsInProcess(talk.model), 8, 0.05, 4
    )
    worker.start()
    worker.stop()
    with pytest.raises(TooManyFailures, match="4 of 4 dialogues failed"):
        worker.check_health(1.0)


def test_one_failed_dialogue_of_a_small_batch_does_not_end_the_training_and_as_many_of_the_last_ones_do() -> None:
    talk = Talk()

    def hold(ids: Sequence[str], number: int) -> list[Rollout]:
        first, *others = talk.hold(ids, number)
        return [failed(first), *others]

    for batches, ends in ((1, False), (2, True)):  # of 8 dialogues 1 or 2 failed, and 1 may
        worker = DialogueWorker(hold, [batch(1)] * batches, CREDIT, WeightsInProcess(talk.model), 1000, 0.125, 8)
        worker.start()
        worker._thread.shutdown(wait=True)
        with pytest.raises(
            TooManyFailures if ends else RuntimeError, match="2 of 8 dialogues failed" if ends else "all dialogues were held"
        ):
            worker.check_health(1.0)


def test_when_nothing_is_left_to_learn_from_it_says_so_and_a_full_queue_ends_with_the_training() -> None:
    talk = Talk()
    worker = DialogueWorker(talk.hold, [batch(1)] * 2, CREDIT, WeightsInProcess(talk.model), 1000, 0.05, 8)
    worker.start()
    worker._thread.shutdown(wait=True)
    with pytest.raises(RuntimeError, match="all dialogues were held"):
        worker.check_health(1.0)
    full = DialogueWorker(talk.hold, itertools.repeat(batch(1)), CREDIT, WeightsInProcess(talk.model), 1, 0.05, 8)
    full.start()
    first = full.rollout_buffer.get(timeout=60)
    full.stop()
    assert first.advantage and full._work is not None and full._work.done()


def test_other_weights_are_refused() -> None:
    weights = WeightsInProcess(micro_model())
    weights.pause()  # TRL's order; after an error it does not call `resume`
    with pytest.raises(KeyError, match="nowhere"):
        weights.send_weights([("nowhere", torch.zeros(1))])
    assert not weights.under_way.locked(), "whoever holds dialogues would wait for ever"


def test_a_training_whose_weights_cannot_be_sent_ends_with_the_error(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    talk, waited = Talk(), list[bool]()
    weights = WeightsInProcess(talk.model)

    class Renamed(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            weights.model = torch.nn.Linear(1, 1)

    stop = DialogueWorker.stop

    def stopped(worker: DialogueWorker) -> None:
        waited.append(weights.under_way.acquire(timeout=60))
        weights.under_way.release()  # also where it was never free: the test is to fail, not to hang
        stop(worker)

    monkeypatch.setattr(DialogueWorker, "stop", stopped)
    with pytest.raises(KeyError):
        trainer(talk, weights, 2, Renamed()).train()
    assert waited and all(waited), "dialogues could still be held"
