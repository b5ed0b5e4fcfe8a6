"""Numbers as tensors, and tensors compared with numbers."""

from __future__ import annotations

import pytest
import torch

NAN = float("nan")


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(found: torch.Tensor, *expected: float, abs: float = 1e-3) -> None:
    assert found.flatten().tolist() == pytest.approx(expected, abs=abs)
