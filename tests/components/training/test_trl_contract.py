"""What components/training/dialogue_trainer.py relies on in TRL, pinned: when one of these fails after an upgrade, training would go wrong silently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from micro import micro_model, micro_tokenizer
from trl import GRPOConfig, GRPOTrainer

POLICY, USER = [11, 12, 13], [21, 22]  # token ids of a turn and of the user's answer
PROMPTS = ["anna", "boris"]


class Contract(GRPOTrainer):
    """Records what TRL does; `advantages` replaces its own by (B, T) ones."""

    advantages: Callable[[dict[str, Any]], torch.Tensor] | None = None

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.seen_inputs = inputs
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.advantages is not None:
            batch["advantages"] = self.advantages(batch)
        self.seen_batch = dict(batch)
        return batch


def trainer(
    tmp_path: Path,
    rewards: Sequence[float | None] = (0.1, 0.9, 0.3, 0.5),
    env_mask: Sequence[int] = (1, 1, 1, 0, 0, 1, 1, 1),
    advantages: Callable[[dict[str, Any]], torch.Tensor] | None = None,
    **extra: list[Any],
) -> Contract:
    """One step on two prompts with groups of two; every dialogue says POLICY, hears USER, says POLICY."""
    calls: list[Any] = []
    scored: list[Any] = []

    def rollout_func(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        calls.append(prompts)
        n = len(prompts)
        ids = POLICY + USER + POLICY
        return {
            "prompt_ids": [[5, 6, 7 + row] for row in range(n)],
            "completion_ids": [list(ids) for _ in range(n)],
            "logprobs": [[0.0] * len(ids) for _ in range(n)],
            "env_mask": [list(env_mask) for _ in range(n)],
            "emotion_reward": list(rewards),
            **extra,
        }

    def reward(prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        scored.append(columns)
        return list(columns["emotion_reward"])

    config = GRPOConfig(
        output_dir=str(tmp_path), use_cpu=True, bf16=False, gradient_checkpointing=False, per_device_train_batch_size=4,
        steps_per_generation=1, num_generations=2, max_steps=1, learning_rate=0.1, report_to=[], disable_tqdm=True, shuffle_dataset=False,
        logging_steps=1, save_strategy="no", loss_type="grpo", beta=0.0, dataloader_pin_memory=False, warmup_steps=0,
    )  # fmt: skip
    made = Contract(
        model=micro_model(),
        processing_class=micro_tokenizer(),
        args=config,
        reward_funcs=[reward],
        rollout_func=rollout_func,
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": name}], "persona_id": name} for name in PROMPTS]),
    )
    made.advantages = advantages
    made.calls, made.scored = calls, scored
    return made


def weights(made: Contract) -> torch.Tensor:
    return torch.cat([weight.detach().flatten().clone() for weight in made.model.parameters()])


def moved(made: Contract) -> bool:
    """Whether one step with a large learning rate changed any weight."""
    before = weights(made)
    made.train()
    assert made.state.global_step == 1
    return not torch.equal(before, weights(made))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    """An ordinary step, looked at from several sides."""
    made = trainer(tmp_path_factory.mktemp("plain"), transcript=["a", "b", "c", "d"])
    made.before = weights(made)
    made.train()
    return made


def test_prompts_arrive_repeated_and_with_their_rows(plain: Contract) -> None:
    (prompts,) = plain.calls
    assert [prompt[0]["content"] for prompt in prompts] == ["anna", "anna", "boris", "boris"]
    assert [row["persona_id"] for row in plain.seen_inputs] == ["anna", "anna", "boris", "boris"]
    assert [row["prompt"] for row in plain.seen_inputs] == prompts


def test_lists_reach_the_reward_function_row_by_row(plain: Contract) -> None:
    (columns,) = plain.scored
    assert columns["transcript"] == ["a", "b", "c", "d"]
    assert columns["emotion_reward"] == [0.1, 0.9, 0.3, 0.5]


def test_the_batch_is_what_was_said(plain: Contract) -> None:
    assert plain.seen_batch["completion_ids"].tolist() == [POLICY + USER + POLICY] * 4
    assert plain.seen_batch["prompt_ids"].tolist() == [[5, 6, 7 + row] for row in range(4)]


def test_a_group_of_two_gets_opposite_advantages(plain: Contract) -> None:
    advantages = plain.seen_batch["advantages"]
    assert advantages[0] == pytest.approx(-advantages[1]) and advantages[0] < 0


def test_policy_tokens_train(plain: Contract) -> None:
    assert plain.state.global_step == 1
    assert not torch.equal(plain.before, weights(plain))


def test_a_reward_of_none_is_left_out_of_its_group_and_gets_nothing(tmp_path: Path) -> None:
    made = trainer(tmp_path, rewards=(None, 0.9, 0.3, 0.5))
    made.train()
    advantages = made.seen_batch["advantages"].tolist()
    assert advantages[:2] == [0.0, 0.0] and advantages[2] < 0 < advantages[3]


def test_a_batch_in_which_everything_failed_changes_nothing(tmp_path: Path) -> None:
    assert not moved(trainer(tmp_path, rewards=(None, None, None, None)))


def test_masked_tokens_do_not_train_whatever_they_are_credited_with(tmp_path: Path) -> None:
    """(B, T) advantages are taken as they are; where they are non-zero on the user's tokens alone, no weight moves."""

    def on(place: Callable[[int], bool]) -> Callable[[dict[str, Any]], torch.Tensor]:
        return lambda batch: torch.tensor([[float(place(t)) * (row + 1) for t in range(8)] for row in range(4)])

    assert not moved(trainer(tmp_path / "user", advantages=on(lambda t: t in (3, 4))))
    assert moved(trainer(tmp_path / "policy", advantages=on(lambda t: t in (5,))))


def test_a_wholly_masked_dialogue_is_allowed(tmp_path: Path) -> None:
    assert not moved(trainer(tmp_path, env_mask=[0] * 8))


def test_each_token_is_credited_with_its_own_advantage(tmp_path: Path) -> None:
    """Loss grpo: the mean over dialogues of the mean over trainable tokens; ratio 1, so the gradient of -A log p."""

    def advantages(batch: dict[str, Any]) -> torch.Tensor:
        return torch.tensor([[0.5, 0.0, 0.0, 9.0, 9.0, -1.0, 0.0, 2.0]]).repeat(4, 1)

    made = trainer(tmp_path, advantages=advantages)
    batch = made._generate_and_score_completions([dict(row) for row in made.train_dataset for _ in range(2)])
    made.model.train()
    made.current_gradient_accumulation_steps = 1
    made._compute_loss(made.model, batch).backward()
    found = torch.cat([weight.grad.flatten() for weight in made.model.parameters()])
    made.model.zero_grad()
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    logprob = made.model(ids).logits[:, 2:-1].log_softmax(-1).gather(-1, ids[:, 3:, None]).squeeze(-1)
    credit = torch.tensor([0.5, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 2.0])
    (-(logprob * credit).sum(dim=1) / 6).mean().backward()
    expected = torch.cat([weight.grad.flatten() for weight in made.model.parameters()])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)
