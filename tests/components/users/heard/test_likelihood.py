"""How likely a reply's tokens are, and what is taken of it."""

from __future__ import annotations

import torch

from rlver.components.users.heard.likelihood import likelihoods, token_likelihoods


def test_likelihoods_of_tokens_are_counted_and_summed() -> None:
    logits = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 9.0], [1.0, 1.0]])
    found = token_likelihoods(logits, torch.tensor([0, 0, 0, 1]))
    half = torch.tensor(0.5).log()
    assert torch.allclose(found[[0, 3], 0], half.expand(2)) and torch.allclose(found[[0, 3], 1], torch.zeros(2), atol=1e-6)
    assert found[1, 1] > 0 > found[2, 1], "likelier, and less likely, than was to be expected"
    mean, total, tokens, last, first_half, second_half, least, *_ = likelihoods(found).tolist()
    assert tokens == 4 and abs(total - 4 * mean) < 1e-4 and abs(last - float(half)) < 1e-6
    assert first_half > mean > second_half and abs(least * 3 - float(found[[0, 2, 3], 0].sum())) < 1e-4
    assert likelihoods(found[:1]).isfinite().all() and not likelihoods(found[:0]).any()
