"""GRPO, as train.algorithm names it. The trainer: components/training/grpo.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlver.components.domain.kinds import AlgorithmKind

if TYPE_CHECKING:
    from rlver.components.training.build import UpdateParameters
    from rlver.components.training.grpo import DialogueGRPOTrainer


def _trainer(parameters: UpdateParameters) -> tuple[type[DialogueGRPOTrainer], Mapping[str, Any]]:
    from rlver.components.training.grpo import DialogueGRPOTrainer

    return DialogueGRPOTrainer, {"credit": parameters.credit, "group_size": parameters.group_size}


ALGORITHM = AlgorithmKind(_trainer)
