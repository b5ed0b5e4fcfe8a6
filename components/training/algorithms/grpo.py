"""GRPO, as train.algorithm names it. The trainer: components/training/grpo.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlver.components.domain.kinds import AlgorithmKind

if TYPE_CHECKING:
    from rlver.components.training.grpo import DialogueGRPOTrainer


def _trainer() -> type[DialogueGRPOTrainer]:
    from rlver.components.training.grpo import DialogueGRPOTrainer

    return DialogueGRPOTrainer


ALGORITHM = AlgorithmKind(_trainer)
