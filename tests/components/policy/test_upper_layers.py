"""Training only the uppermost layers: what is below stays to the last bit, and what is above gets the gradients it would get anyway."""

from __future__ import annotations

import pytest
import torch
from micro import micro_model

from rlver.components.policy.supervised import train_upper_layers


def loss_of(model: torch.nn.Module) -> torch.Tensor:
    ids = torch.arange(3, 23)[None]
    loss: torch.Tensor = model(input_ids=ids, labels=ids).loss
    return loss


def test_only_the_upper_layers_get_gradients_and_the_same_ones() -> None:
    whole, part = micro_model(layers=3, seed=4), micro_model(layers=3, seed=4)
    train_upper_layers(part, 1)
    loss_of(whole).backward()
    loss_of(part).backward()
    learning = {name for name, weight in part.named_parameters() if weight.grad is not None}
    assert learning == {name for name, _ in part.named_parameters() if name.startswith(("model.layers.2.", "model.norm."))}
    of_whole = dict(whole.named_parameters())
    for name, weight in part.named_parameters():
        if name in learning:
            assert torch.equal(weight.grad, of_whole[name].grad)


def test_zero_is_all_and_too_many_are_refused() -> None:
    model = micro_model(layers=2)
    train_upper_layers(model, 0)
    assert all(weight.requires_grad for weight in model.parameters())
    with pytest.raises(ValueError, match=r"trained_layers is 3, but the model has 2 layers"):
        train_upper_layers(model, 3)
