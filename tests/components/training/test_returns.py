"""Rewards of turns, discounted returns, GAE and whitening: worked arithmetic."""

from __future__ import annotations

import torch
from small_tensors import NAN, close, tensor

from rlver.components.training.advantages import discounted, gae, turn_advantages, turn_rewards, whitened

# Two policy tokens, two of the user's, one more policy token; the only reward comes at the end.
ACTS = torch.tensor([[1, 1, 0, 0, 1, 0]])
VALUES = tensor(0.2, 0.4, 9.0, -9.0, 0.6, 5.0)[None]
END = tensor(0, 0, 0, 0, 1.0, 0)[None]


def test_with_lambda_1_the_advantage_is_the_return_less_the_value() -> None:
    advantage, target = gae(END, VALUES, ACTS, 1.0, 1.0)
    close(advantage, 0.8, 0.6, 0.0, 0.0, 0.4, 0.0)
    close(target, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0)


def test_with_lambda_0_it_is_one_step_of_the_policy_however_much_the_user_says() -> None:
    close(gae(END, VALUES, ACTS, 1.0, 0.0)[0], 0.2, 0.2, 0.0, 0.0, 0.4, 0.0)


def test_in_between_the_errors_fade_by_lambda_and_gamma() -> None:
    # errors .9 * .4 - .2 = .16, .9 * .6 - .4 = .14, 1 - .6 = .4; fading by .45
    close(gae(END, VALUES, ACTS, 0.9, 0.5)[0], 0.16 + 0.45 * (0.14 + 0.45 * 0.4), 0.14 + 0.45 * 0.4, 0.0, 0.0, 0.4, 0.0)


def test_the_users_tokens_contribute_nothing() -> None:
    """Ten more on each of their values and rewards: nothing moves."""
    more = 10.0 * (1 - ACTS)
    for gamma, gae_lambda in ((1.0, 1.0), (0.9, 0.5), (1.0, 0.0)):
        for found, expected in zip(
            gae(END + more, VALUES + more, ACTS, gamma, gae_lambda), gae(END, VALUES, ACTS, gamma, gae_lambda), strict=True
        ):
            assert torch.equal(found, expected)


def test_a_reward_of_nothing_is_a_reward() -> None:
    close(gae(0 * END, VALUES, ACTS, 1.0, 1.0)[0], -0.2, -0.4, 0.0, 0.0, -0.6, 0.0)


BEFORE = torch.tensor([[0.4, 0.5, 0.45], [0.4, 0.3, NAN]], dtype=torch.float64)


def test_the_terminal_reward_comes_with_the_last_turn() -> None:
    close(turn_rewards(tensor(0.6, 0.2), BEFORE, dense=False), 0, 0, 0.6, 0, 0.2, 0)


def test_dense_rewards_are_the_changes_and_sum_to_the_terminal_one_less_the_start() -> None:
    dense = turn_rewards(tensor(0.6, 0.2), BEFORE, dense=True)
    close(dense, 0.1, -0.05, 0.15, -0.1, -0.1, 0)
    close(dense.sum(dim=1), 0.2, -0.2)


def test_a_dense_dialogue_whose_reward_was_withheld_pays_at_its_end() -> None:
    dense = turn_rewards(tensor(0.0, 0.0), BEFORE, dense=True)
    close(dense, 0.1, -0.05, -0.45, -0.1, -0.3, 0)


def test_dense_and_terminal_rewards_give_the_same_advantages_once_the_values_are_the_emotions() -> None:
    """Ng et al. 1999: shaping by a potential is the same as starting from values equal to it."""
    acts = ~BEFORE.isnan()
    values = BEFORE.nan_to_num()
    reward = tensor(0.6, 0.2)
    for gae_lambda in (0.0, 0.7, 1.0):
        terminal, _ = gae(turn_rewards(reward, BEFORE, dense=False), values, acts, 1.0, gae_lambda)
        dense, _ = gae(turn_rewards(reward, BEFORE, dense=True), 0 * values, acts, 1.0, gae_lambda)
        torch.testing.assert_close(terminal, dense)


def test_whitening_is_by_the_moments_of_every_process() -> None:
    mask = torch.tensor([[True, True, False]])
    close(whitened(tensor(1.0, 3.0, 50.0)[None], mask), -1.0, 1.0, 0.0)
    # another process holds 5 and 7: mean 4, deviation sqrt(5)
    there = tensor(2.0, 12.0, 74.0)
    close(whitened(tensor(1.0, 3.0, 50.0)[None], mask, lambda here: here + there), -3 / 5**0.5, -1 / 5**0.5, 0.0)


def test_discounted_turns_count_later_changes_for_less() -> None:
    before = tensor(0.4, 0.5, NAN, 0.4, 0.3, 0.2).view(2, 3)  # changes .1, .4 and -.1, -.1, .3
    reward = tensor(0.9, 0.5)
    found = discounted(reward, before, 0.5)
    torch.testing.assert_close(found, tensor(0.3, 0.4, NAN, -0.075, 0.05, 0.3).view(2, 3), equal_nan=True)
    torch.testing.assert_close(discounted(reward, before, 1.0), reward[:, None] - before, equal_nan=True)
    close(discounted(reward, before, 0.0)[1], -0.1, -0.1, 0.3)
    assert discounted(tensor(NAN, 0.5), before, 0.5)[0].isnan().all(), "an unscorable dialogue has no return"
    with_discount = turn_advantages(reward, before, 2, "none", 0.5)
    close(with_discount[:, 0], 0.375, -0.375)
