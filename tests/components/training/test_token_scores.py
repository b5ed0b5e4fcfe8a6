"""Scores of the policy's tokens against a plain forward pass over everything."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from micro import micro_model

from rlver.components.training import token_scores
from rlver.components.training.token_scores import add_token_scores

IDS = torch.tensor([[0, 0, 5, 6, 7, 8, 9, 0, 0], [0, 3, 4, 5, 6, 7, 8, 9, 0]])
REAL = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1, 1, 1, 0]])  # padding on both sides, in all rows and in one
POLICY = torch.tensor([[0, 0, 0, 1, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0, 0, 1, 0]])
TEMPERATURE = 0.7


def plain(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies (2, 8) of the policy's tokens, 0 elsewhere, the long way."""
    logprob = (model(IDS, attention_mask=REAL).logits[:, :-1] / TEMPERATURE).log_softmax(-1)
    said = POLICY[:, 1:].bool()
    return (
        logprob.gather(-1, IDS[:, 1:, None]).squeeze(-1).where(said, torch.tensor(0.0)),
        -(logprob.exp() * logprob).sum(-1).where(said, torch.tensor(0.0)),
    )


def gradient(model: Any, logprob: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    (logprob * torch.arange(8.0)).sum().backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


@pytest.mark.parametrize("logits_at_once", [2**24, 1], ids=["whole", "in pieces"])
def test_scores_and_their_gradient_are_those_of_a_plain_forward_pass(logits_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_scores, "LOGITS_AT_ONCE", logits_at_once)
    model = micro_model(scale=2.0)
    expected, entropy = plain(model)
    expected_gradient = gradient(model, expected)
    add_token_scores(model, TEMPERATURE)
    scores = model(input_ids=IDS, attention_mask=REAL, policy_mask=POLICY)
    torch.testing.assert_close(scores.log_probs, expected.detach(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(scores.entropy, entropy.detach(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(gradient(model, scores.log_probs), expected_gradient, atol=1e-4, rtol=1e-3)


def test_without_a_mask_the_model_is_what_it_was() -> None:
    model = micro_model()
    before = model(IDS).logits
    add_token_scores(model, 1.0)
    torch.testing.assert_close(model(IDS).logits, before)


def test_rows_without_a_policy_token_score_nothing_and_can_be_differentiated() -> None:
    model = micro_model()
    add_token_scores(model, 1.0)
    scores = model(input_ids=IDS, attention_mask=REAL, policy_mask=torch.zeros_like(POLICY))
    assert not scores.log_probs.any()
    assert not gradient(model, scores.log_probs).any()


def test_a_model_that_scales_its_logits_is_refused() -> None:
    model = micro_model()
    model.config.final_logit_softcapping = 30.0
    with pytest.raises(ValueError, match="scales its logits"):
        add_token_scores(model, 1.0)
