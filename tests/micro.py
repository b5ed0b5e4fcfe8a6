"""A tokenizer trained on a few sentences and models small enough to run in no time."""

from __future__ import annotations

from functools import cache
from typing import Any

SENTENCES = [
    "I am so sorry, that sounds hard.", "Tell me more about it. I'm listening.", "You kept going, and that took courage!",
    "My sister left without a word.", "What would you do differently next time?", "Naïve café — 42 euros, 'quoted' \"twice\".",
]  # fmt: skip


@cache
def micro_tokenizer() -> Any:
    from rlver.components.policy.tiny.model import train_tokenizer

    return train_tokenizer(SENTENCES * 3, vocab_size=400)


def micro_model(layers: int = 1, seed: int = 1, scale: float = 1.0) -> Any:
    """Random weights; a larger scale makes the next token less of a toss-up."""
    import torch

    from rlver.components.policy.tiny.model import new_model

    made = new_model(micro_tokenizer(), hidden_size=32, layers=layers, heads=2, max_positions=1536, seed=seed)
    with torch.no_grad():
        for weight in made.parameters():
            if weight.ndim == 2:
                weight.mul_(scale)
    return made.eval()
