"""Which of a model's layers learn."""

from __future__ import annotations

from typing import Any


def train_upper_layers(model: Any, count: int) -> None:
    """Let only the `count` uppermost layers of `model` learn; 0: all of it. What is below costs a forward pass, and no backward one.

    Raises ValueError for a model with fewer layers.
    """
    if not count:
        return
    layers = model.base_model.layers
    if count > len(layers):
        raise ValueError(f"trained_layers is {count}, but the model has {len(layers)} layers")
    for weight in model.parameters():
        weight.requires_grad_(False)
    for layer in [*layers[-count:], model.base_model.norm]:
        for weight in layer.parameters():
            weight.requires_grad_(True)
