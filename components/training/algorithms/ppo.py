"""PPO, as train.algorithm names it. The trainer: components/training/ppo.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlver.components.domain.kinds import AlgorithmKind

if TYPE_CHECKING:
    from rlver.components.training.build import UpdateParameters
    from rlver.components.training.ppo import DialoguePPOTrainer


def _trainer(parameters: UpdateParameters) -> tuple[type[DialoguePPOTrainer], Mapping[str, Any]]:
    from rlver.components.training.ppo import CriticParameters, DialoguePPOTrainer

    critic = CriticParameters(
        gamma=parameters.gamma,
        gae_lambda=parameters.gae_lambda,
        gae_level=parameters.gae_level,
        dense=parameters.dense,
        separate=parameters.critic == "separate",
        sees_emotion=parameters.critic_sees_emotion,
        learning_rate=parameters.critic_learning_rate,
        value_weight=parameters.value_weight,
        value_clip=parameters.value_clip,
    )
    return DialoguePPOTrainer, {"critic": critic}


ALGORITHM = AlgorithmKind(_trainer)
