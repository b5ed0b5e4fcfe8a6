"""PPO, as train.algorithm names it. The trainer: components/training/ppo.py."""

from __future__ import annotations

from typing import Any

from rlver.components.domain.kinds import AlgorithmKind


def _trainer() -> Any:
    from rlver.components.training.ppo import DialoguePPOTrainer

    return DialoguePPOTrainer


ALGORITHM = AlgorithmKind(_trainer)
