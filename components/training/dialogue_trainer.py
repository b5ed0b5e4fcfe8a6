"""Reinforcement learning on whole dialogues, whatever the algorithm: TRL's trainer, taught what a dialogue is.

Beside this file only build.py, ppo.py and asynchronous.py import TRL.
TRL's `rollout_func` is the only hook that can express a user's turns. What is relied on is held by tests/components/training/test_trl_contract.py:
prompts arrive already repeated, `env_mask` 1 means policy token, a reward of None is left out, `_compute_loss` takes advantages (B, T).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from trl import GRPOConfig, GRPOTrainer

from rlver.components.rollout.episode import Rollout
from rlver.components.training.adapters import WholeCheckpoints
from rlver.components.training.processes import rank
from rlver.components.training.section import UpdateParameters
from rlver.components.training.token_scores import TokenScores, add_token_scores, turn_rows

# The persona ids of this process (already repeated per group) and the optimiser step -> the rollouts of all processes, in their order.
Rollouts = Callable[[Sequence[str], int], list[Rollout]]
ROUNDING = 1e-4  # nats: sampler and trainer that differ by less say the same
MEANS_OVER_TOKENS = {"entropy", "kl", "clip_ratio/region_mean"}  # of what TRL logs of every forward pass


@dataclass(frozen=True)
class TokenMasks:
    """Of every completion token (B, T): is it the policy's, in which turn was it said, does it stay in the context of later turns?"""

    policy: torch.Tensor
    turn: torch.Tensor
    in_later_context: torch.Tensor


class DialogueTrainer(WholeCheckpoints, GRPOTrainer):
    """GRPOTrainer whose rows are dialogues. A kind says in `compute_advantages` what each token is credited with."""

    configuration: type[GRPOConfig] = GRPOConfig  # what TRL's numbers are checked by

    def __init__(
        self,
        *,
        end_of_turn: int,
        update: UpdateParameters,
        score: Callable[[Rollout], float | None],
        rollouts: Rollouts,
        **arguments: Any,
    ) -> None:
        self.end_of_turn = end_of_turn
        self.update = update
        self.score = score
        self.make_rollouts = rollouts
        self.rollout_rows: list[dict[str, Any]] = []
        self.all_rollouts: list[Rollout] = []  # of the last step, in all processes
        self.own = slice(0)  # which of them are this process's
        self.token_masks = TokenMasks(*torch.zeros(3, 0, 0))  # of the rows TRL is about to ask the log-probabilities of
        self.log_probs = torch.zeros(0, 0)  # of the rows it asked last
        self.sampled_log_probs: torch.Tensor | None = None  # of the rows in the loss, while the weights are those sampled from
        self.state_values: torch.Tensor | None = None  # of those rows, where there is a critic
        super().__init__(rollout_func=self._roll_out, reward_funcs=[_reward], **arguments)
        for model in (self.model, self.ref_model):
            if model is not None:
                add_token_scores(self.accelerator.unwrap_model(model), self.temperature)

    def _roll_out(self, prompts: list[Any], _trainer: GRPOTrainer) -> dict[str, Any]:
        """TRL's hook: one dialogue per prompt, in the order of the prompts."""
        rows = self.rollout_rows
        if [row["prompt"] for row in rows] != prompts:
            raise RuntimeError("TRL handed other prompts to rollout_func than to _generate_and_score_completions")
        self.all_rollouts = self.make_rollouts([row["persona_id"] for row in rows], self.state.global_step)
        self.own = slice(rank() * len(rows), (rank() + 1) * len(rows))
        rollouts = self.all_rollouts[self.own]
        scores = [self.score(rollout) for rollout in rollouts]
        trainable = [_trainable(rollout, score) or [0] for rollout, score in zip(rollouts, scores, strict=True)]
        self.token_masks = TokenMasks(
            *(
                pad_sequence([torch.tensor(row) for row in rows_of], batch_first=True, padding_value=padding).to(self.accelerator.device)
                for rows_of, padding in (
                    (trainable, 0),
                    ([rollout.turn_T or [0] for rollout in rollouts], 0),
                    ([[int(stays) for stays in rollout.in_later_context_T] or [1] for rollout in rollouts], 1),
                )
            )
        )
        return {
            "prompt_ids": [list(rollout.prompt_ids) or [self.end_of_turn] for rollout in rollouts],
            "completion_ids": [list(rollout.completion_ids) or [self.end_of_turn] for rollout in rollouts],
            "logprobs": [list(rollout.logprob_T) or [0.0] for rollout in rollouts],
            "env_mask": trainable,
            "emotion_reward": scores,
        }

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.rollout_rows = inputs
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        batch |= {"turn": self.token_masks.turn, "stays": self.token_masks.in_later_context}
        batch |= self.compute_advantages(batch)
        learns_DT = batch["completion_mask"] * batch["tool_mask"]
        # Ratios are to the distribution that was sampled from, so that what sampler and trainer differ by is corrected like any other step
        # off policy, and cut off by the same clipping. TRL would take the trainer's own. 0 where nothing learns, as the trainer's are there.
        batch["old_per_token_logps"] = batch["sampling_per_token_logps"] * learns_DT
        learns_D = learns_DT.sum(dim=1)
        self.log_mean("learning_share", (learns_D > 0).float())
        dialogues, learning, tokens = self.over_processes(
            torch.stack([torch.ones_like(learns_D).sum(), (learns_D > 0).sum(), learns_D.sum()])
        ).tolist()
        batch["row_weight"] = torch.full_like(learns_D, dialogues / max(1, learning), dtype=torch.float32)
        batch["num_items_in_batch"] = torch.tensor(tokens, device=learns_D.device)
        return batch

    def compute_advantages(self, batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        """What the loss needs beside the tokens, above all `advantages` (B, T); every tensor has a row a dialogue."""
        raise NotImplementedError

    def rewards(self) -> torch.Tensor:
        """(D,) rewards of the last rollouts of all processes, less what their cut-off turns cost; NaN where a dialogue could not be scored."""
        penalty = self.update.reward.cut_off_penalty  # of the reward, for each turn that ended at the limit of tokens
        counted = [(self.score(rollout), counted_cut_off(rollout, self.update.gates_format)) for rollout in self.all_rollouts]
        return torch.tensor([float("nan") if reward is None else reward - penalty * len(turns) for reward, turns in counted])

    def paid_before(self) -> torch.Tensor:
        """(D, K) what was paid before each turn of the last rollouts of all processes: see `paid_before`."""
        return paid_before(self.all_rollouts, self.update.gates_format, self.update.reward.cut_off_penalty)

    def over_processes(self, numbers: torch.Tensor) -> torch.Tensor:
        """The sum of each process's `numbers`."""
        total: torch.Tensor = self.accelerator.reduce(numbers, reduction="sum")
        return total

    def log_mean(self, name: str, values: torch.Tensor) -> None:
        """Log the mean of `values` (N,) over all processes, NaN of none. The mean of a step's numbers, NaN left out, is what is recorded."""
        sums = torch.stack([values.sum(), torch.ones_like(values).sum()])
        total, count = self.over_processes(sums.to(self.accelerator.device)).tolist()
        self.log_number(name, total / count if count else math.nan)

    def log_number(self, name: str, value: float) -> None:
        """Log a number that is the same in all processes."""
        self._metrics["train"][name].append(value)

    def by_token(self, turn_DK: torch.Tensor, width: int) -> torch.Tensor:
        """(D, width): every policy token of this process's dialogues gets the number of its turn, the user's tokens 0."""
        own = self.all_rollouts[self.own]
        tokens = torch.zeros(len(own), width)
        for row, rollout in enumerate(own):
            turn_T = torch.tensor(rollout.turn_T, dtype=torch.long).clamp_max(turn_DK.shape[1] - 1)  # empty where the opening failed
            tokens[row, : len(turn_T)] = turn_DK[row, turn_T] * torch.tensor(rollout.is_policy_T)
        return tokens

    @property
    def _is_as_sampled(self) -> bool:
        """Whether the weights are still those that were sampled from."""
        return bool(self.state.global_step % self.num_iterations == 0)

    def _compute_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        self.token_masks = TokenMasks(inputs["completion_mask"] * inputs["tool_mask"], inputs["turn"], inputs["stays"])
        self.sampled_log_probs = inputs["old_per_token_logps"] if self._is_as_sampled else None
        loss: torch.Tensor = super()._compute_loss(model, inputs)  # type: ignore[no-untyped-call]
        self.sampled_log_probs = None
        learns = self.token_masks.policy.bool()
        if not self.over_processes(learns.sum()):  # TRL's mean over no token is 0, which would pass for a policy without entropy
            for name in MEANS_OVER_TOKENS & self._metrics["train"].keys():
                self._metrics["train"][name][-1] = math.nan
        if self._is_as_sampled:
            self.log_mean("logprob_gap", (self.log_probs - inputs["sampling_per_token_logps"]).abs()[learns])
        return loss * inputs["row_weight"][0] if self.loss_type == "grpo" else loss

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
        masks = self.token_masks
        if masks.policy.shape != (len(input_ids), logits_to_keep):
            raise RuntimeError("TRL asked for the log-probabilities of other rows than it was given")
        asked = logits_to_keep
        policy, turn, stays = torch.zeros_like(input_ids), torch.zeros_like(input_ids), torch.ones_like(input_ids)
        policy[:, -asked:], turn[:, -asked:], stays[:, -asked:] = masks.policy, masks.turn, masks.in_later_context
        scores: list[dict[str, torch.Tensor]] = []
        size, whole = batch_size or len(input_ids), bool(stays.all())  # one way for all parts: what the two give differs in width
        for first in range(0, len(input_ids), size):
            part = slice(first, first + size)
            tokens = (input_ids[part], attention_mask[part], policy[part])
            with self.accelerator.autocast():
                scores.append(_scores(model, *tokens) if whole else _scores_by_turn(model, *tokens, turn[part], stays[part]))
        score = {name: torch.cat([piece[name] for piece in scores])[:, -asked:] for name in scores[0]}
        self.log_probs, self.state_values = score["log_probs"].detach(), score.get("state_values")
        if self.sampled_log_probs is not None:  # how rounding falls depends on which dialogues shared a batch: nothing is learned from it
            near = (self.log_probs - self.sampled_log_probs).abs() < ROUNDING
            self.sampled_log_probs.copy_(torch.where(near, self.log_probs, self.sampled_log_probs))
        return score["log_probs"], score["entropy"], None


def _scores(model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, policy_mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """Scores by name, each (B, T), of dialogues whose every turn saw all that was said before it."""
    scores: TokenScores = model(input_ids=input_ids, attention_mask=attention_mask, policy_mask=policy_mask)
    return dict(scores)


def _scores_by_turn(
    model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, policy_mask: torch.Tensor, turn: torch.Tensor, stays: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The same of dialogues whose thoughts were forgotten after each turn."""
    rows = turn_rows(input_ids, attention_mask, policy_mask, turn, stays)
    scores = _scores(model, rows.input_ids, rows.attention_mask, rows.policy_mask)
    return {name: rows.put_back(score, input_ids.shape) for name, score in scores.items()}


def paid_before(rollouts: Sequence[Rollout], format_gate: bool, cut_off_penalty: float) -> torch.Tensor:
    """(D, K) emotion in 0..1 before each turn, less what earlier cut-off turns cost; NaN where a dialogue had no such turn.

    With `format_gate` a dialogue is decided by its first malformed turn: later ones change nothing, so they count as turns that were not.
    """
    longest = max(1, max(len(rollout.dialogue.turns) for rollout in rollouts))
    before = torch.full((len(rollouts), longest), float("nan"))
    for row, rollout in enumerate(rollouts):
        emotion = rollout.dialogue.emotion_start
        last = rollout.malformed_turn if format_gate else None
        for turn_index, turn in enumerate(rollout.dialogue.turns[: None if last is None else last + 1]):
            cut_off = sum(one < turn_index for one in counted_cut_off(rollout, format_gate))
            before[row, turn_index] = emotion / 100 - cut_off_penalty * cut_off
            emotion = turn.emotion if turn.emotion is not None else emotion
    return before


def counted_cut_off(rollout: Rollout, format_gate: bool) -> list[int]:
    """The turns (from 0) that ended at the limit of tokens; with `format_gate` none after the first malformed turn, which has decided."""
    last = rollout.malformed_turn if format_gate and rollout.malformed_turn is not None else math.inf
    return [turn for turn in rollout.cut_off_turns if turn <= last]


def _trainable(rollout: Rollout, score: float | None) -> list[int]:
    """1 on policy tokens; all 0 in a dialogue that failed or has no reward, so that it neither counts nor learns."""
    scorable = rollout.dialogue.error is None and score is not None
    return [int(is_policy and scorable) for is_policy in rollout.is_policy_T]


def _reward(prompts: Any, completions: Any, emotion_reward: list[float | None], **_: Any) -> list[float | None]:
    return emotion_reward
