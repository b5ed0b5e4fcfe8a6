"""GRPO, as train.algorithm names it. The trainer: components/training/grpo.py."""

from __future__ import annotations

from typing import Any

from rlver.components.domain.kinds import AlgorithmKind


def _trainer() -> Any:
    from rlver.components.training.grpo import DialogueGRPOTrainer

    return DialogueGRPOTrainer


ALGORITHM = AlgorithmKind(_trainer)
