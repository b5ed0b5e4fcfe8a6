"""Attention of our own against the library's: same numbers, same gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from micro import micro_model

from rlver.components.policy import attention as attention_module
from rlver.components.policy.attention import BLOCKED, attention, attention_for_training, blocked_attention, grouped_attention

IDS = torch.arange(3, 17).view(2, 7)


def passed(model: Any, way: str, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (2, 7, V) and the gradient of their weighted sum over the real tokens."""
    model.zero_grad()
    with attention(model, way):
        logits = model(IDS, attention_mask=mask).logits
        weight = torch.arange(1.0, 8.0)[None, :, None] * (1.0 if mask is None else mask[:, :, None])
        (logits.log_softmax(-1)[..., :5] * weight).sum().backward()
    return logits.detach(), torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("queries", [3, 7, 192], ids=["ragged blocks", "one whole block", "short sequence"])
@pytest.mark.parametrize("mask", [None, [[1] * 7, [0, 0, 1, 1, 1, 1, 1]], [[1] * 5 + [0, 0], [0] + [1] * 6]], ids=["full", "left", "both"])
def test_blocked_attention_is_causal_attention(mask: list[list[int]] | None, queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_module, "_QUERIES", queries)
    model = micro_model(scale=2.0)
    real = None if mask is None else torch.tensor(mask)
    (logits, gradient), (expected, expected_gradient) = passed(model, BLOCKED, real), passed(model, "eager", real)
    where = torch.ones_like(IDS, dtype=torch.bool) if real is None else real.bool()
    torch.testing.assert_close(logits[where], expected[where], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(gradient, expected_gradient, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("more", [{"softcap": 30.0}, {"s_aux": torch.zeros(2)}], ids=["a cap on scores", "sinks"])
@pytest.mark.parametrize("way", [blocked_attention, grouped_attention])
def test_attention_that_is_more_than_plain_is_refused(way: Any, more: dict[str, Any]) -> None:
    query, mask = torch.zeros(1, 2, 3, 4), torch.zeros(1, 1, 1, 3)
    assert way(torch.nn.Module(), query, query, query, mask, 1.0, softcap=None)[0].shape == (1, 3, 2, 4)
    with pytest.raises(ValueError, match="Module is no plain softmax attention"):
        way(torch.nn.Module(), query, query, query, mask, 1.0, **more)


def test_the_models_own_way_is_back_afterwards_and_is_not_saved(tmp_path: Any) -> None:
    model = micro_model()
    before = model.config._attn_implementation
    with attention_for_training(model):
        assert model.config._attn_implementation == BLOCKED
        model.save_pretrained(tmp_path)
    assert model.config._attn_implementation == before
    assert BLOCKED not in (tmp_path / "config.json").read_text()


def test_a_model_with_sliding_windows_keeps_its_own_way() -> None:
    model = micro_model()
    before = model.config._attn_implementation
    model.config.layer_types = ["sliding_attention"] * len(model.config.layer_types)
    with attention_for_training(model):
        assert model.config._attn_implementation == before
