"""Reinforcement learning on whole dialogues, whatever the algorithm: TRL's trainer, taught what a dialogue is.

This file and its two kinds, grpo.py and ppo.py, are the only ones that touch TRL.
TRL's `rollout_func` is the only hook that can express a user's turns. What is relied on is held by tests/training/test_trl_contract.py:
prompts arrive already repeated, `env_mask` 1 means policy token, a reward of None is left out, `_compute_loss` takes advantages (B, T).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from trl import GRPOTrainer

from components.dialogue.episode import Rollout
from components.training.token_scores import TokenScores, add_token_scores

Rollouts = Callable[[Sequence[str], int], list[Rollout]]  # persona ids (already repeated per group) and optimiser step -> rollouts


class DialogueTrainer(GRPOTrainer):
    """GRPOTrainer whose rows are dialogues. A kind says in `credit` what each token is credited with."""

    def __init__(self, *, end_of_turn: int, score: Callable[[Rollout], float | None], rollouts: Rollouts, **arguments: Any) -> None:
        self.end_of_turn = end_of_turn
        self.score = score
        self.make_rollouts = rollouts
        self.rollout_rows: list[dict[str, Any]] = []
        self.last_rollouts: list[Rollout] = []
        self.policy_mask = torch.zeros(0, 0)  # of the rows TRL is about to ask the log-probabilities of
        self.state_values: torch.Tensor | None = None  # of the rows it asked last, where there is a critic
        super().__init__(rollout_func=self._roll_out, reward_funcs=[_reward], **arguments)
        for model in (self.model, self.ref_model):
            if model is not None:
                add_token_scores(self.accelerator.unwrap_model(model), self.temperature)

    def _roll_out(self, prompts: list[Any], _trainer: GRPOTrainer) -> dict[str, Any]:
        """TRL's hook: one dialogue per prompt, in the order of the prompts."""
        rows = self.rollout_rows
        if [row["prompt"] for row in rows] != prompts:
            raise RuntimeError("TRL handed other prompts to rollout_func than to _generate_and_score_completions")
        rollouts = self.make_rollouts([row["persona_id"] for row in rows], self.state.global_step)
        self.last_rollouts = rollouts
        trainable = [_trainable(rollout) or [0] for rollout in rollouts]
        self.policy_mask = pad_sequence([torch.tensor(mask) for mask in trainable], batch_first=True).to(self.accelerator.device)
        return {
            "prompt_ids": [list(rollout.prompt_ids) or [self.end_of_turn] for rollout in rollouts],
            "completion_ids": [list(rollout.completion_ids) or [self.end_of_turn] for rollout in rollouts],
            "logprobs": [list(rollout.logprob_T) or [0.0] for rollout in rollouts],
            "env_mask": trainable,
            "emotion_reward": [self.score(rollout) for rollout in rollouts],
        }

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.rollout_rows = inputs
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        batch |= self.credit(batch)
        return batch

    def credit(self, batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        """What the loss needs beside the tokens, above all `advantages` (B, T); every tensor has a row a dialogue."""
        raise NotImplementedError

    def rewards(self) -> torch.Tensor:
        """(D,) rewards of the last rollouts, NaN where a dialogue could not be scored."""
        rewards = [self.score(rollout) for rollout in self.last_rollouts]
        return torch.tensor([float("nan") if reward is None else reward for reward in rewards])

    def log_mean(self, name: str, value: float) -> None:
        """Log `value`; the mean over a step is what is recorded."""
        self._metrics["train"][name].append(value)

    def by_token(self, turn_DK: torch.Tensor, width: int) -> torch.Tensor:
        """(D, width): every policy token gets the number of its turn, the user's tokens 0."""
        tokens = torch.zeros(len(self.last_rollouts), width)
        for row, rollout in enumerate(self.last_rollouts):
            turn_T = torch.tensor(rollout.turn_T).clamp_max(turn_DK.shape[1] - 1)
            tokens[row, : len(turn_T)] = turn_DK[row, turn_T] * torch.tensor(rollout.is_policy_T)
        return tokens

    def _compute_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        self.policy_mask = inputs["completion_mask"] * inputs["tool_mask"]
        loss: torch.Tensor = super()._compute_loss(model, inputs)  # type: ignore[no-untyped-call]
        return loss

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        **_: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        """TRL's hook for log-probabilities and entropies, both (B, logits_to_keep): those of the policy's tokens, 0 elsewhere."""
        if len(self.policy_mask) != len(input_ids) or self.policy_mask.shape[1] != logits_to_keep:
            raise RuntimeError("TRL asked for the log-probabilities of other rows than it was given")
        spoken = torch.zeros_like(input_ids)
        spoken[:, -logits_to_keep:] = self.policy_mask
        scores: list[TokenScores] = []
        size = batch_size or len(input_ids)
        for first in range(0, len(input_ids), size):
            part = slice(first, first + size)
            with self.accelerator.autocast():
                scores.append(model(input_ids=input_ids[part], attention_mask=attention_mask[part], policy_mask=spoken[part]))
        log_probs, entropy = (torch.cat([score[name] for score in scores])[:, -logits_to_keep:] for name in ("log_probs", "entropy"))
        if scores[0].state_values is not None:
            self.state_values = torch.cat([score["state_values"] for score in scores])[:, -logits_to_keep:]
        return log_probs, entropy, None


def emotions_before(rollouts: Sequence[Rollout]) -> torch.Tensor:
    """(D, K) emotion before each turn in 0..1, NaN where a dialogue had no such turn."""
    longest = max(1, max(len(rollout.dialogue.turns) for rollout in rollouts))
    before = torch.full((len(rollouts), longest), float("nan"))
    for row, rollout in enumerate(rollouts):
        emotion = rollout.dialogue.emotion_start
        for turn_index, turn in enumerate(rollout.dialogue.turns):
            before[row, turn_index] = emotion / 100
            emotion = turn.emotion if turn.emotion is not None else emotion
    return before


def _trainable(rollout: Rollout) -> list[int]:
    """1 on policy tokens; all 0 in a dialogue that failed, so that it neither counts nor learns."""
    return [int(is_policy and rollout.dialogue.failure is None) for is_policy in rollout.is_policy_T]


def _reward(prompts: Any, completions: Any, emotion_reward: list[float | None], **_: Any) -> list[float | None]:
    return emotion_reward
