"""PPO, as train.algorithm names it. The trainer: components/training/ppo.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlver.components.domain.kinds import AlgorithmKind

if TYPE_CHECKING:
    from rlver.components.training.ppo import DialoguePPOTrainer


def _trainer() -> type[DialoguePPOTrainer]:
    from rlver.components.training.ppo import DialoguePPOTrainer

    return DialoguePPOTrainer


ALGORITHM = AlgorithmKind(_trainer)
