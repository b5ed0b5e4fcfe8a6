"""PPO: a token is judged by how much better the dialogue went than the critic expected (Schulman et al. 2017).

TRL has no PPO any more; its GRPO loss is PPO's clipped policy loss, to which this adds a critic, masked GAE and the value loss.
One dialogue a persona is enough.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from trl import GRPOConfig

from rlver.components.policy.precision import held_in_bfloat16
from rlver.components.training.adapters import inner
from rlver.components.training.advantages import gae, turn_rewards, whitened
from rlver.components.training.dialogue_trainer import DialogueTrainer, TokenMasks


@dataclass
class PPOConfig(GRPOConfig):
    """GRPOConfig refuses groups of one, which PPO does not need."""

    def __post_init__(self) -> None:
        wanted = self.num_generations
        self.num_generations = max(2, wanted or 2)
        super().__post_init__()  # type: ignore[no-untyped-call]
        self.num_generations = wanted


class DialoguePPOTrainer(DialogueTrainer):
    """Masked GAE over policy tokens, or over whole turns; advantages whitened over all processes."""

    configuration = PPOConfig

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        train, policy = self.update.train, self.accelerator.unwrap_model(self.model)
        policy.critic = Critic(inner(policy), train.critic == "separate", told=3 if train.critic_sees_emotion else 1)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """A checkpoint of adapters holds adapters only, a separate critic's too: its value head goes beside them."""
        super()._save(output_dir, state_dict)
        policy = self.accelerator.unwrap_model(self.model)
        if inner(policy) is not policy and self.args.should_save:
            save_file(policy.critic.head(), Path(output_dir or str(self.args.output_dir)) / HEAD_FILE)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Raises ValueError also for a checkpoint of adapters without this critic's value head."""
        policy = self.accelerator.unwrap_model(self.model)
        if inner(policy) is not policy:
            policy.critic.load_head(Path(resume_from_checkpoint) / HEAD_FILE)
        super()._load_from_checkpoint(resume_from_checkpoint, model)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """AdamW with a learning rate of its own for the critic; torch's own default of weight decay is not ours."""
        if self.optimizer is None:
            policy: Any = self.model
            kind, options = self.get_optimizer_cls_and_kwargs(self.args, policy)
            named = [(name, weight) for name, weight in policy.named_parameters() if weight.requires_grad]
            self.optimizer = kind(
                [
                    {"params": [weight for name, weight in named if not name.startswith("critic.")]},
                    {
                        "params": [weight for name, weight in named if name.startswith("critic.")],
                        "lr": self.update.train.critic_learning_rate,
                    },
                ],
                **{"weight_decay": self.args.weight_decay, **options},
            )
        return self.optimizer

    def compute_advantages(self, batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        train, ids, mask_DT = self.update.train, batch["completion_ids"], (batch["completion_mask"] * batch["tool_mask"]).cpu()
        reward_D, before_DK = self.rewards()[self.own], self.paid_before()[self.own]
        batch["told"] = self._told(before_DK, ids.shape[1]).to(ids.device)
        value_DT = self._values(batch).cpu()
        counts_DK = ~(before_DK + reward_D[:, None]).isnan()  # scored, and no turn after a malformed one
        counts_DT = self.by_token(counts_DK.float(), ids.shape[1]).bool()
        reward_DK = turn_rewards(reward_D.nan_to_num(), before_DK, self.update.reward.dense)
        first_DT, last_DT = self._turn_edges(ids.shape[1])
        acts_DT = (mask_DT.bool() if train.gae_level == "token" else first_DT) & counts_DT
        reward_DT = torch.where(last_DT if train.gae_level == "token" else first_DT, self.by_token(reward_DK, ids.shape[1]), 0.0)
        advantage_DT, return_DT = gae(reward_DT, value_DT, acts_DT, train.gamma, train.gae_lambda)
        if train.gae_level == "turn":
            advantage_DT = self._spread(advantage_DT, first_DT)
        learns_DT = mask_DT.bool() & counts_DT
        value_N, return_N = (tensor[acts_DT].to(ids.device) for tensor in (value_DT, return_DT))
        self.log_number("explained_variance", explained_variance(value_N, return_N, self.over_processes))
        self.log_mean("value_mean", value_N)
        critic = self.accelerator.unwrap_model(self.model).critic
        level_DT = critic.level(batch["told"])
        critic.fit_level(batch["told"][acts_DT.to(ids.device)], return_N, self.over_processes)
        return {
            "told": batch["told"],
            "advantages": whitened(advantage_DT.to(ids.device), learns_DT.to(ids.device), self.over_processes),
            "old_values": value_DT.to(ids.device) + critic.level(batch["told"]) - level_DT,
            "returns": return_DT.to(ids.device),
            "value_mask": acts_DT.float().to(ids.device),
        }

    def _compute_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        policy_loss = super()._compute_loss(model, inputs)
        assert self.state_values is not None
        values = self.state_values + self.accelerator.unwrap_model(self.model).critic.level(inputs["told"])
        losses = value_losses(values, inputs["old_values"], inputs["returns"], self.update.train.value_clip)
        mask = inputs["value_mask"]
        loss_D = (losses * mask).sum(-1) / mask.sum(-1).clamp_min(1)
        self.log_mean("value_loss", loss_D.detach()[mask.any(-1)])
        share = inputs["row_weight"][0] / self.current_gradient_accumulation_steps
        return policy_loss + self.update.train.value_weight * loss_D.mean() * share

    @torch.no_grad()
    def _values(self, batch: dict[str, Any]) -> torch.Tensor:
        """(B, T): the critic's values before each policy token, with the weights as they are."""
        self.token_masks = TokenMasks(batch["completion_mask"] * batch["tool_mask"], batch["turn"], batch["stays"])
        self._get_per_token_logps_and_entropies(
            self.model,
            torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
            torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
            batch["completion_ids"].shape[1],
            self.args.per_device_train_batch_size,
        )
        assert self.state_values is not None
        level_DT: torch.Tensor = self.accelerator.unwrap_model(self.model).critic.level(batch["told"])
        return self.state_values + level_DT

    def _told(self, before_DK: torch.Tensor, width: int) -> torch.Tensor:
        """(D, width, 1): 1, or with `sees_emotion` (D, width, 3): 1, the emotion before the token's turn (0..1), the turn (from 0)."""
        one_DK = torch.ones_like(before_DK)
        turn_DK = torch.arange(before_DK.shape[1]) * one_DK
        told = (one_DK, before_DK.nan_to_num(), turn_DK) if self.update.train.critic_sees_emotion else (one_DK,)
        return torch.stack([self.by_token(each_DK, width) for each_DK in told], dim=-1)

    def _turn_edges(self, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(D, width) twice: the first and the last policy token of every turn."""
        own = self.all_rollouts[self.own]
        first, last = torch.zeros(2, len(own), width, dtype=torch.bool)
        for row, rollout in enumerate(own):
            if rollout.dialogue.error is None:
                said = torch.tensor([False, *rollout.is_policy_T, False])
                first[row, : len(rollout.is_policy_T)] = (said[1:] & ~said[:-1])[:-1]
                last[row, : len(rollout.is_policy_T)] = (said[:-1] & ~said[1:])[1:]
        return first, last

    def _spread(self, advantage_DT: torch.Tensor, first_DT: torch.Tensor) -> torch.Tensor:
        """The number at each turn's first token, on all tokens from there to the next turn."""
        place = torch.where(first_DT, torch.arange(first_DT.shape[1]), 0).cummax(dim=1).values
        return advantage_DT.gather(1, place)


HEAD_FILE = "critic.safetensors"
_NONE = 1e-12  # a variance of returns in 0..1 that is rounding


class Critic(nn.Module):
    """A linear value head, zero at first: on the policy's own hidden states, or on those of a trunk of its own. The trunk of a policy with
    adapters has its own adapters, and only they train; what is held in bfloat16 is the policy's.

    A value is a level, plus what the head says. The level is the plane of least squares through the returns of the last batch over what the
    critic is told: nothing (then it is their mean), or the emotion before the turn, which the policy never sees, and the turn (an asymmetric
    critic, after Pinto et al. 2017, "Asymmetric actor critic for image-based robot learning"). A level that the weights had to carry would
    be noise on every token while the policy improves (value normalisation, after van Hasselt et al. 2016, "Learning values across many
    orders of magnitude", without its scale).
    """

    plane: torch.Tensor

    def __init__(self, policy: Any, separate: bool, told: int = 1) -> None:
        super().__init__()
        self.trunk = copy.deepcopy(policy.base_model, held_in_bfloat16(policy)) if separate else None
        self.value_head = nn.Linear(policy.config.hidden_size, 1).to(policy.device, torch.float32)
        nn.init.zeros_(self.value_head.weight)
        nn.init.zeros_(self.value_head.bias)
        self.register_buffer("plane", torch.zeros(told, device=policy.device))  # in checkpoints, like the weights

    def forward(self, hidden_BTH: torch.Tensor, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Values (B, T) above the level; `hidden_BTH` are the policy's hidden states, not used by a critic with its own trunk."""
        if self.trunk is not None:
            hidden_BTH = self.trunk(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
        with torch.autocast(hidden_BTH.device.type, enabled=False):  # values stay float32
            value_BT: torch.Tensor = self.value_head(hidden_BTH.float()).squeeze(-1)
        return value_BT

    def head(self) -> dict[str, torch.Tensor]:
        """What the critic has beside its trunk, by name."""
        return {name: tensor for name, tensor in self.state_dict().items() if not name.startswith("trunk.")}

    def load_head(self, file: Path) -> None:
        """Take over what `head` gave. Raises ValueError when `file` holds anything else."""
        try:
            tensors = load_file(file)
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{file}: {error}; delete this checkpoint to go on from an earlier one") from error
        if {name: tensor.shape for name, tensor in tensors.items()} != {name: tensor.shape for name, tensor in self.head().items()}:
            raise ValueError(f"{file}: not the value head of this training; delete this checkpoint to go on from an earlier one")
        self.load_state_dict(tensors, strict=False)

    def level(self, told: torch.Tensor) -> torch.Tensor:
        """(..., F) what the critic is told, the first of it 1 -> (...)."""
        return told @ self.plane

    def fit_level(self, told_NF: torch.Tensor, return_N: torch.Tensor, over_processes: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Lay the plane through the returns of a batch; without any it stays. `over_processes` adds up each process's sums."""
        told_NF, return_N = told_NF.double(), return_N.double()
        gram_FF, moment_F = over_processes(told_NF.T @ told_NF), over_processes(told_NF.T @ return_N)
        if gram_FF.any():
            self.plane.copy_(torch.linalg.pinv(gram_FF, hermitian=True) @ moment_F)


def value_losses(value: torch.Tensor, old_value: torch.Tensor, returned: torch.Tensor, clip: float) -> torch.Tensor:
    """Clipped squared errors, elementwise: a value gains nothing from moving further than `clip` from its old one (Schulman et al.,
    "Proximal policy optimization algorithms", as in the authors' baselines). `clip` 0: not clipped."""
    error = (value - returned).square()
    if clip:
        bounded = old_value + (value - old_value).clamp(-clip, clip)
        error = torch.maximum(error, (bounded - returned).square())
    return 0.5 * error


def explained_variance(
    value: torch.Tensor, returned: torch.Tensor, over_processes: Callable[[torch.Tensor], torch.Tensor] = lambda sums: sums
) -> float:
    """1 − Var(return − value) / Var(return) over 1-D tensors: 1 perfect, 0 no better than a constant; NaN where returns do not vary.

    `over_processes` adds up sums: each process holds a part of the values."""
    count, total, off = over_processes(torch.stack([torch.ones_like(returned).sum(), returned.sum(), (returned - value).sum()]))
    centred, error = returned - total / count, returned - value - off / count
    spread, left = over_processes(torch.stack([centred.square().sum(), error.square().sum()]))
    return float(1 - left / spread) if spread > _NONE * count else float("nan")
