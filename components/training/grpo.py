"""GRPO on whole dialogues: the one file that touches TRL.

TRL's `rollout_func` is the only hook that can express a user's turns. What is relied on is held by tests/training/test_trl_contract.py:
prompts arrive already repeated, `env_mask` 1 means policy token, a reward of None is left out, `_compute_loss` takes advantages (B, T).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from components.dialogue.episode import Rollout
from components.training.advantages import group_advantages, turn_advantages
from components.training.token_scores import TokenScores, add_token_scores

Rollouts = Callable[[Sequence[str], int], list[Rollout]]  # persona ids (already repeated per group) and optimiser step -> rollouts


@dataclass(frozen=True)
class GrpoParameters:
    """The numbers of the update; see `train` in params.yaml."""

    credit: str
    steps: int
    personas_per_step: int
    group_size: int
    rows_per_forward: int
    learning_rate: float
    learning_rate_schedule: str
    warmup_steps: int
    epsilon: float
    epsilon_high: float
    beta: float
    loss_type: str
    scale_rewards: str
    updates_per_batch: int
    max_grad_norm: float
    temperature: float
    save_every: int
    seed: int


class DialogueGRPOTrainer(GRPOTrainer):
    """GRPOTrainer whose rows are dialogues and whose advantages are computed here, over dialogues, never over turns."""

    def __init__(
        self,
        *,
        credit: str,
        group_size: int,
        end_of_turn: int,
        score: Callable[[Rollout], float | None],
        rollouts: Rollouts,
        **arguments: Any,
    ) -> None:
        self.credit = credit
        self.end_of_turn = end_of_turn
        self.group_size = group_size
        self.score = score
        self.make_rollouts = rollouts
        self.rollout_rows: list[dict[str, Any]] = []
        self.last_rollouts: list[Rollout] = []
        self.policy_mask = torch.zeros(0, 0)
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
        batch["advantages"] = self._advantages(batch["completion_ids"].shape[1]).to(batch["completion_ids"].device)
        return batch

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
        return log_probs, entropy, None

    def _advantages(self, width: int) -> torch.Tensor:
        """(B, T): the credit of the turn a token belongs to, 0 on the user's tokens."""
        rollouts = self.last_rollouts
        rewards = [self.score(rollout) for rollout in rollouts]
        reward_D = torch.tensor([float("nan") if reward is None else reward for reward in rewards])
        group, scale = self.group_size, self.scale_rewards
        if self.credit == "dialogue":
            advantage_D = group_advantages(reward_D, group, scale)
            turn_DK = advantage_D[:, None].expand(-1, max(len(r.dialogue.turns) for r in rollouts) + 1)
        else:
            turn_DK = turn_advantages(reward_D, emotions_before(rollouts), group, scale)
        advantages = torch.zeros(len(rollouts), width)
        for row, rollout in enumerate(rollouts):
            turn_T = torch.tensor(rollout.turn_T).clamp_max(turn_DK.shape[1] - 1)
            advantages[row, : len(turn_T)] = turn_DK[row, turn_T] * torch.tensor(rollout.is_policy_T)
        return advantages


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


def build_trainer(
    model: Any,
    tokenizer: Any,
    persona_ids_in_order: Sequence[str],
    parameters: GrpoParameters,
    checkpoints: Path,
    score: Callable[[Rollout], float | None],
    rollouts: Rollouts,
    callbacks: Sequence[Any],
) -> DialogueGRPOTrainer:
    """A trainer ready for `train(resume_from_checkpoint=…)`.

    `persona_ids_in_order` holds steps × personas_per_step ids: the order is ours, so that needs are stratified and a resume exact.
    """
    rows = parameters.personas_per_step * parameters.group_size
    if rows % parameters.rows_per_forward:
        raise ValueError(
            f"personas_per_step x group_size = {rows} must be divisible by train.rows_per_forward = {parameters.rows_per_forward}"
        )
    if len(persona_ids_in_order) != parameters.steps * parameters.personas_per_step:
        raise ValueError(f"expected {parameters.steps} x {parameters.personas_per_step} persona ids, got {len(persona_ids_in_order)}")
    forwards = rows // parameters.rows_per_forward
    logging.getLogger("trl.trainer.grpo_trainer").addFilter(lambda record: "All reward functions returned None" not in record.getMessage())
    on_gpu = torch.cuda.is_available()
    config = GRPOConfig(
        output_dir=str(checkpoints),
        use_cpu=not on_gpu,
        bf16=on_gpu,
        gradient_checkpointing=False,
        per_device_train_batch_size=parameters.rows_per_forward,
        gradient_accumulation_steps=forwards,
        steps_per_generation=forwards,
        num_generations=parameters.group_size,
        num_iterations=parameters.updates_per_batch,
        max_steps=parameters.steps * parameters.updates_per_batch,
        shuffle_dataset=False,
        learning_rate=parameters.learning_rate,
        lr_scheduler_type={"constant": "constant_with_warmup", "linear": "linear"}[parameters.learning_rate_schedule],
        warmup_steps=parameters.warmup_steps,
        max_grad_norm=parameters.max_grad_norm,
        weight_decay=0.0,
        epsilon=parameters.epsilon,
        epsilon_high=parameters.epsilon_high,
        beta=parameters.beta,
        loss_type=parameters.loss_type,
        scale_rewards="batch" if parameters.scale_rewards == "none" else parameters.scale_rewards,
        temperature=parameters.temperature,
        logging_steps=1,
        save_strategy="steps",
        save_steps=parameters.save_every * parameters.updates_per_batch,
        save_total_limit=2,
        report_to=[],
        disable_tqdm=True,
        seed=parameters.seed,
        data_seed=parameters.seed,
        dataloader_pin_memory=False,
        mask_truncated_completions=False,
    )
    config.scale_rewards = parameters.scale_rewards
    dataset = Dataset.from_list(
        [{"prompt": [{"role": "user", "content": persona_id}], "persona_id": persona_id} for persona_id in persona_ids_in_order]
    )
    trainer = DialogueGRPOTrainer(
        credit=parameters.credit,
        group_size=parameters.group_size,
        end_of_turn=tokenizer.eos_token_id,
        score=score,
        rollouts=rollouts,
        model=model,
        processing_class=tokenizer,
        args=config,
        train_dataset=dataset,
        callbacks=list(callbacks),
    )
    trainer.remove_callback(PrinterCallback)  # our own Watch shows what matters
    return trainer
