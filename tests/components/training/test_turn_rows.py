"""A row a turn: each turn scored in the context it was sampled in, every dialogue counting once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import FakeSimulator, FakeUser
from micro import micro_model
from short_runs import PARAMETERS, RULES, SPEAKING, changed, prepared

from rlver.components.domain.persona import Persona
from rlver.components.training.token_scores import add_token_scores, turn_rows

#                     prompt   thought reply  user   thought reply  padding
IDS = torch.tensor([[5, 6, 7, 11, 12, 13, 21, 22, 14, 15, 16, 0, 0], [0, 8, 9, 17, 18, 19, 23, 24, 25, 26, 11, 12, 27]])
REAL = torch.tensor([[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]])
POLICY = torch.tensor([[0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 1, 1]])
TURN = torch.tensor([[0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]])
STAYS = torch.tensor([[1, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1], [1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 0, 1]])


def test_a_row_is_a_turn_and_what_stays_of_those_before() -> None:
    rows = turn_rows(IDS, REAL, POLICY, TURN, STAYS)
    read = [ids[real.bool()].tolist() for ids, real in zip(rows.input_ids, rows.attention_mask, strict=True)]
    assert read == [
        [5, 6, 7, 11, 12, 13],
        [5, 6, 7, 13, 21, 22, 14, 15, 16],
        [8, 9, 17, 18, 19],
        [8, 9, 18, 19, 23, 24, 25, 26],
        [8, 9, 18, 19, 23, 24, 26, 11, 12, 27],
    ]
    said = [ids[own.bool()].tolist() for ids, own in zip(rows.input_ids, rows.policy_mask, strict=True)]
    assert said == [[11, 12, 13], [14, 15, 16], [17, 18, 19], [25, 26], [12, 27]]


def test_scores_and_their_gradient_are_those_of_each_turn_in_its_own_context() -> None:
    model = micro_model(scale=2.0)
    expected = torch.zeros(IDS.shape)
    for context, said, row, places in (
        ([5, 6, 7], [11, 12, 13], 0, [3, 4, 5]),
        ([5, 6, 7, 13, 21, 22], [14, 15, 16], 0, [8, 9, 10]),
        ([8, 9], [17, 18, 19], 1, [3, 4, 5]),
        ([8, 9, 18, 19, 23, 24], [25, 26], 1, [8, 9]),
        ([8, 9, 18, 19, 23, 24, 26, 11], [12, 27], 1, [11, 12]),
    ):
        logprob = model(torch.tensor([[*context, *said]])).logits[0, len(context) - 1 : -1].log_softmax(-1)
        expected[row, places] = logprob[range(len(said)), said]
    gradient = _gradient(model, expected)
    add_token_scores(model, 1.0)
    rows = turn_rows(IDS, REAL, POLICY, TURN, STAYS)
    scores = model(input_ids=rows.input_ids, attention_mask=rows.attention_mask, policy_mask=rows.policy_mask)
    found = rows.put_back(scores.log_probs, IDS.shape)
    torch.testing.assert_close(found, expected.detach(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(_gradient(model, found), gradient, atol=1e-4, rtol=1e-3)


def test_where_nothing_is_forgotten_rows_a_turn_score_as_whole_dialogues() -> None:
    model = micro_model(scale=2.0)
    add_token_scores(model, 1.0)
    whole = model(input_ids=IDS, attention_mask=REAL, policy_mask=POLICY)
    rows = turn_rows(IDS, REAL, POLICY, TURN, torch.ones_like(STAYS))
    scores = model(input_ids=rows.input_ids, attention_mask=rows.attention_mask, policy_mask=rows.policy_mask)
    for name in ("log_probs", "entropy"):
        torch.testing.assert_close(rows.put_back(scores[name], IDS.shape)[:, 1:], whole[name], atol=1e-5, rtol=1e-4)


def test_a_dialogue_without_a_policy_token_keeps_a_row() -> None:
    rows = turn_rows(IDS, REAL, torch.zeros_like(POLICY), TURN, STAYS)
    assert rows.input_ids.shape[0] == 2 and not rows.policy_mask.any()


@pytest.mark.parametrize("strip", [True, False], ids=["strip", "keep"])
def test_the_gradient_of_two_turns_weighs_as_much_as_that_of_ten(strip: bool, tmp_path: Path) -> None:
    """With the same advantage everywhere, the loss moves each dialogue's log-probabilities by the same sum."""

    def user_of(persona: Persona, seed: int) -> FakeUser:
        return FakeUser("U", [1] * 10, leaves_after=2 if len(simulator.sessions) % 2 else None)

    simulator = FakeSimulator(user_of)
    speaking = replace(SPEAKING, thinking=True, strip_thoughts=strip)
    run = prepared(tmp_path, changed(PARAMETERS, steps=1), simulator, speaking=speaking, rules=replace(RULES, max_turns=10))
    run.trainer.compute_advantages = lambda batch: {"advantages": torch.ones_like(batch["completion_mask"]).float()}  # type: ignore[method-assign]
    seen: list[torch.Tensor] = []
    score = run.trainer._get_per_token_logps_and_entropies

    def remembered(*arguments: Any, **named: Any) -> Any:
        log_probs, *others = score(*arguments, **named)
        log_probs.retain_grad()
        seen.append(log_probs)
        return (log_probs, *others)

    run.trainer._get_per_token_logps_and_entropies = remembered  # type: ignore[method-assign]
    run.trainer.train()
    assert sorted(len(rollout.dialogue.turns) for rollout in run.rollouts[0]) == [2, 2, 10, 10]
    assert all(all(rollout.in_later_context_T) is not strip for rollout in run.rollouts[0])
    weights = torch.cat([log_probs.grad.sum(dim=1) for log_probs in seen if log_probs.grad is not None])
    torch.testing.assert_close(weights, torch.full((4,), -0.25))


def _gradient(model: Any, logprob: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    (logprob * torch.arange(float(logprob.shape[1]))).sum().backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])
