"""GRPO: a dialogue is judged by how the others of its group went (Shao et al. 2024, DeepSeekMath)."""

from __future__ import annotations

from typing import Any

import torch

from rlver.components.training.advantages import group_advantages, mica_advantages, state_advantages, turn_advantages, zero_advantage_groups
from rlver.components.training.dialogue_trainer import DialogueTrainer


class DialogueGRPOTrainer(DialogueTrainer):
    """Advantages over groups of dialogues of one persona and opener, never over turns.

    A group whose dialogues all went equally well says nothing; it leaves the loss, KL included, and the others weigh more for it.
    """

    def compute_advantages(self, batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        reward_D, before_DK = self.rewards(), self.paid_before()
        credit, group_size = self.update.train.credit, self.update.train.group_size
        if credit == "mica":
            turn_DK = mica_advantages(reward_D, before_DK, group_size)
        elif credit == "turn":
            turn_DK = turn_advantages(reward_D, before_DK, group_size, self.scale_rewards, self.update.train.gamma)
        elif credit == "state":
            turn_DK = state_advantages(reward_D, before_DK, self.scale_rewards, self.update.train.gamma)
        else:
            turn_DK = group_advantages(reward_D, group_size, self.scale_rewards)[:, None].expand(-1, before_DK.shape[1])
        mask = batch["tool_mask"]
        no_advantage_D = zero_advantage_groups(turn_DK, group_size)[self.own].to(mask.device)
        return {
            "advantages": self.by_token(turn_DK[self.own], mask.shape[1]).to(mask.device),
            "tool_mask": mask.masked_fill(no_advantage_D[:, None], 0),
        }
