"""A tokenizer trained on a few sentences and models small enough to run in no time; random weights, but decided ones."""

from __future__ import annotations

from typing import Any

import pytest

from components.policy.tiny.model import new_model, train_tokenizer

SENTENCES = [
    "I am so sorry, that sounds hard.", "Tell me more about it. I'm listening.", "You kept going, and that took courage!",
    "My sister left without a word.", "What would you do differently next time?", "Naïve café — 42 euros, 'quoted' \"twice\".",
]  # fmt: skip


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return train_tokenizer(SENTENCES * 3, vocab_size=400)


@pytest.fixture(scope="session")
def model(tokenizer: Any) -> Any:
    """Two layers, two heads sharing one key-value head. Weights are scaled up so that the next token is not a toss-up."""
    import torch

    made = new_model(tokenizer, hidden_size=32, layers=2, heads=2, max_positions=512, seed=1)
    with torch.no_grad():
        for weight in made.parameters():
            if weight.ndim == 2:
                weight.mul_(6.0)
    return made.eval()
