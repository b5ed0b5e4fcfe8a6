"""A tokenizer and a model for the policy's tests."""

from __future__ import annotations

from typing import Any

import pytest
from micro import micro_model, micro_tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return micro_tokenizer()


@pytest.fixture(scope="session")
def model() -> Any:
    """Two layers, two heads sharing one key-value head, decided weights."""
    return micro_model(layers=2, scale=6.0)
