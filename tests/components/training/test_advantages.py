"""Credit: worked arithmetic, and a two-turn world small enough to enumerate, where the true gradient is known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from small_tensors import NAN, close, tensor

from rlver.components.training.advantages import group_advantages, mica_advantages, state_advantages, turn_advantages, zero_advantage_groups


def test_group_advantages_are_distances_from_the_groups_mean_in_its_deviations() -> None:
    # mean .5, deviation sqrt((.09 + .01 + .01 + .09) / 3) = .2582
    close(group_advantages(tensor(0.2, 0.4, 0.6, 0.8), 4, "group"), -1.1619, -0.3873, 0.3873, 1.1619)


def test_a_group_is_silent_when_no_turn_of_it_has_an_advantage() -> None:
    turns = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, -0.2], [0.0, 0.0], [0.1, 0.0], [0.0, 0.0]])
    assert zero_advantage_groups(turns, 2).tolist() == [True, True, False, False, False, False]


def test_groups_do_not_see_each_other() -> None:
    both = group_advantages(tensor(0.1, 0.3, 0.9, 0.7), 2, "none")
    close(both, -0.1, 0.1, 0.1, -0.1)


def test_a_group_of_equals_learns_nothing() -> None:
    for scale in ("group", "batch", "none"):
        close(group_advantages(tensor(0.4, 0.4, 0.1, 0.3), 2, scale)[:2], 0.0, 0.0)
    close(group_advantages(tensor(0.4, 0.4), 2, "batch"), 0.0, 0.0)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("group_size", [2, 3, 5, 6, 7, 12, 32])
def test_what_rounding_leaves_of_equal_rewards_is_no_advantage(group_size: int, scale: str) -> None:
    """A mean of equal numbers is 1e-8 off in float32. Divided by a deviation as small, 1e-4 added, that would be 1e-4 and more."""
    for reward in (0.1, 0.3, 0.42, 0.7, 0.9):
        equal_D = torch.full((2 * group_size,), reward)  # float32, as in a training
        assert zero_advantage_groups(group_advantages(equal_D, group_size, scale)[:, None], group_size).all()
        equal_D[0] += 0.01
        silent = zero_advantage_groups(group_advantages(equal_D, group_size, scale)[:, None], group_size)
        assert silent.tolist() == [False] * group_size + [True] * group_size, "the other group moves"


@pytest.mark.parametrize("gamma", [1.0, 0.5])
@pytest.mark.parametrize("group_size", [3, 5, 6, 7, 12])
def test_what_rounding_leaves_of_equal_dialogues_is_no_credit_of_a_turn(group_size: int, gamma: float) -> None:
    before_DK = torch.tensor([[0.4, 0.47, 0.52, 0.61], [0.4, 0.33, 0.29, NAN]]).repeat_interleave(group_size, dim=0)
    reward_D = torch.tensor([0.7, 0.31]).repeat_interleave(group_size)
    assert not turn_advantages(reward_D, before_DK, group_size, "batch", gamma).any()
    assert not mica_advantages(reward_D, before_DK, group_size, delayed_share=1.0).any()


def test_what_rounding_leaves_of_equal_changes_is_no_credit_of_a_turn() -> None:
    before_DK, reward_D = torch.tensor([0.1, 0.2, 0.3, 0.4]).expand(6, -1), torch.full((6,), 0.5)  # every turn gains .1, give or take 3e-8
    assert zero_advantage_groups(mica_advantages(reward_D, before_DK, 6), 6).all()


def test_an_unscorable_dialogue_counts_in_nothing_and_gets_nothing() -> None:
    # mean of .2 and .6 is .4, deviation of two: .2828
    close(group_advantages(tensor(0.2, NAN, 0.6), 3, "group"), -0.7071, 0.0, 0.7071)
    close(group_advantages(tensor(NAN, NAN, 0.2, 0.4), 2, "none"), 0.0, 0.0, -0.1, 0.1)
    close(group_advantages(tensor(NAN, 0.7), 2, "group"), 0.0, 0.0)
    close(group_advantages(tensor(NAN, NAN), 2, "batch"), 0.0, 0.0)


def test_mica_mixes_the_return_to_go_at_the_same_turn_with_the_change_among_all_turns_of_the_group() -> None:
    reward = tensor(0.8, 0.4)
    before = torch.stack([tensor(0.4, 0.5), tensor(0.4, NAN)])
    # returns to go .4 .3 | 0: at turn 0 mean .2, deviation .2828 -> +-.7071; at turn 1 there is one. Changes .1 .3 | 0: mean .1333, deviation .1528
    delayed, immediate = tensor(0.7071, 0.0, -0.7071, 0.0), tensor(-0.2182, 1.0911, -0.8729, 0.0)
    for share in (0.0, 0.5, 1.0):
        close(mica_advantages(reward, before, 2, share), *(share * delayed + (1 - share) * immediate).tolist(), abs=3e-3)


def test_mica_leaves_unscorable_dialogues_and_other_groups_out() -> None:
    before = tensor(0.4, 0.4, 0.4, 0.4, 0.4, 0.4)[:, None]
    both = mica_advantages(tensor(0.2, 0.6, NAN, 0.9, 0.9, 0.9), before, 3)
    close(both, -0.7071, 0.7071, 0.0, 0.0, 0.0, 0.0, abs=2e-3)
    close(mica_advantages(tensor(NAN, 0.6), before[:2], 2), 0.0, 0.0)


def test_batch_scaling_divides_by_one_number_for_all() -> None:
    # centred -.1 .1 .3 -.3: root mean square sqrt((.01 + .01 + .09 + .09) / 4) = .2236
    close(group_advantages(tensor(0.1, 0.3, 0.9, 0.3), 2, "batch"), -0.4472, 0.4472, 1.3416, -1.3416, abs=2e-3)


def test_a_batch_must_be_whole_groups() -> None:
    for dialogues, size in ((3, 2), (4, 1), (4, 0)):
        with pytest.raises(ValueError, match="whole groups"):
            group_advantages(torch.zeros(dialogues), size, "none")


def test_turn_credit_is_the_return_to_go_against_that_of_the_others_in_the_group() -> None:
    reward = tensor(0.8, 0.2)
    before = torch.stack([tensor(0.4, 0.5), tensor(0.4, 0.3)])
    # to go: .4, .3 and -.2, -.1; each against the other's
    close(turn_advantages(reward, before, 2, "none"), 0.6, 0.4, -0.6, -0.4)


def test_three_dialogues_leave_one_out() -> None:
    before = torch.full((3, 1), 0.4, dtype=torch.float64)
    # to go .5 -.1 .2; baselines .05 .35 .2
    close(turn_advantages(tensor(0.9, 0.3, 0.6), before, 3, "none"), 0.45, -0.45, 0.0)


def test_a_turn_that_never_was_gets_nothing_and_is_nobodys_baseline() -> None:
    before = torch.stack([tensor(0.4, 0.5), tensor(0.4, NAN), tensor(0.4, 0.3)])
    found = turn_advantages(tensor(0.9, 0.0, 0.6), before, 3, "none")
    # turn 2 to go: .4, -, .3
    close(found[:, 1], 0.1, 0.0, -0.1)
    close(found[:, 0], 0.5 - (-0.4 + 0.2) / 2, -0.4 - (0.5 + 0.2) / 2, 0.2 - (0.5 - 0.4) / 2)


def test_a_dialogue_alone_at_a_turn_is_measured_against_the_other_groups_or_against_nothing() -> None:
    before = torch.stack([tensor(0.4, 0.5), tensor(0.4, NAN), tensor(0.4, 0.2), tensor(0.4, 0.4)])
    found = turn_advantages(tensor(0.9, 0.1, 0.6, 0.6), before, 2, "none")
    close(found[0, 1], 0.4 - (0.4 + 0.2) / 2)
    alone = turn_advantages(tensor(0.9, 0.1), before[:2], 2, "none")
    close(alone[0, 1], 0.4)


def test_an_unscorable_dialogue_is_no_baseline_either() -> None:
    before = torch.full((3, 1), 0.4, dtype=torch.float64)
    close(turn_advantages(tensor(0.9, NAN, 0.5), before, 3, "none"), 0.4, 0.0, -0.4)
    close(turn_advantages(tensor(NAN, NAN, NAN), before, 3, "batch"), 0.0, 0.0, 0.0)


def test_turn_credit_in_batch_scale_has_unit_size() -> None:
    before = torch.stack([tensor(0.4, 0.5), tensor(0.4, NAN), tensor(0.4, 0.3), tensor(0.4, NAN)])
    found = turn_advantages(tensor(0.9, 0.0, 0.6, 0.1), before, 2, "batch")
    present = ~before.isnan()
    assert found[present].square().mean().sqrt().item() == pytest.approx(1.0, abs=1e-3)
    assert not found[~present].any()


def test_dividing_turns_by_a_deviation_per_group_is_refused() -> None:
    with pytest.raises(ValueError, match="scale_rewards"):
        turn_advantages(tensor(0.1, 0.2), torch.full((2, 1), 0.4, dtype=torch.float64), 2, "group")
    with pytest.raises(ValueError, match="scale_rewards"):
        state_advantages(tensor(0.1, 0.2), torch.full((2, 1), 0.4, dtype=torch.float64), "group")


def test_state_credit_expects_of_a_turn_what_others_earned_from_where_it_stood() -> None:
    """After a rise everybody rises by .1, after a fall everybody falls by .04: nothing of that is the turn's own."""
    before = torch.stack([tensor(0.4, 0.5) if number % 2 else tensor(0.4, 0.35) for number in range(400)])
    reward = before[:, 1] + torch.where(before[:, 1] > 0.4, 0.1, -0.04)
    close(state_advantages(reward, before, "none")[:2, 1], 0.0, 0.0, abs=2e-3)
    reward[0] += 0.05  # the first one fell, and now falls by less than others do after a fall
    found = state_advantages(reward, before, "none")
    close(found[:2, 1], 0.05, 0.0, abs=3e-3)
    assert turn_advantages(reward, before, 400, "none")[0, 1] < 0  # against all who came to this turn it did badly


def test_state_credit_leaves_out_the_dialogue_itself_whoever_is_unscorable_and_turns_that_never_were() -> None:
    before = torch.stack([tensor(0.4, 0.5), tensor(0.4, NAN), tensor(0.4, 0.3), tensor(0.4, 0.45)])
    found = state_advantages(tensor(0.9, 0.2, NAN, 0.5), before, "none")
    close(found[2], 0.0, 0.0)
    close(found[1, 1], 0.0)
    other = state_advantages(tensor(0.1, 0.2, NAN, 0.5), before, "none")
    close(found[0] - other[0], 0.8, 0.8)  # its own reward moves what it got, not what was expected of it
    close(state_advantages(tensor(NAN, NAN, NAN, NAN), before, "batch").flatten(), *[0.0] * 8)


@pytest.mark.parametrize(("gamma", "scale"), [(1.0, "none"), (0.5, "none"), (0.5, "batch")])
def test_state_credit_is_the_return_less_what_a_ridge_of_the_other_dialogues_expects(gamma: float, scale: str) -> None:
    """Once more by hand, row by row: 12 dialogues of two to five turns, and one that could not be scored."""
    random = np.random.default_rng(5)
    emotions = [[0.4, *random.uniform(0.1, 0.9, random.integers(2, 6)).round(2).tolist()] for _ in range(12)]  # the last one is the end
    emotions[3][2] = emotions[3][1]  # a turn that changed nothing
    rows: list[list[tuple[list[float], float]]] = []
    for dialogue in emotions:
        known: list[tuple[list[float], float]] = []
        for turn, emotion in enumerate(dialogue[:-1]):
            change = emotion - dialogue[turn - 1] if turn else 0.0
            before = [1.0, float(turn == 0), turn / 10, emotion, 10 * change, float(change > 0), float(change < 0)]
            to_go = sum(gamma**later * (dialogue[turn + later + 1] - dialogue[turn + later]) for later in range(len(dialogue) - 1 - turn))
            known.append((before, to_go))
        rows.append(known)
    wanted = np.zeros((13, 5))
    for number, own in enumerate(rows):
        others = [row for one in rows if one is not own for row in one]
        known_NF, to_go_N = np.array([row[0] for row in others]), np.array([row[1] for row in others])
        weights_F = np.linalg.solve(known_NF.T @ known_NF + np.diag([0.0, 1, 1, 1, 1, 1, 1]), known_NF.T @ to_go_N)
        wanted[number, : len(own)] = [to_go - weights_F @ before for before, to_go in own]
    if scale == "batch":
        wanted /= np.sqrt((wanted**2).sum() / sum(map(len, rows)))
    before_DK = torch.tensor([[*one[:-1], *[NAN] * (6 - len(one))] for one in [*emotions, [0.4, 0.7, 0.2, 0.9]]], dtype=torch.float64)
    found = state_advantages(tensor(*(one[-1] for one in emotions), NAN), before_DK, scale, gamma)
    assert np.abs(found.numpy() - wanted).max() < 2e-3 and np.abs(wanted).max() > 0.1


# A world of two turns. First choice 1 (probability p1) ends the dialogue at once; choice 0 leads to a second choice. The emotion after
# each choice and at the end differs between the two personas, so that stopping early and going on are worth different amounts.
LOGITS = (0.3, -0.7)
WORLDS = ({(1,): 0.7, (0, 0): 0.1, (0, 1): 0.9}, {(1,): 0.2, (0, 0): 0.5, (0, 1): 0.6})
EMOTION_BEFORE_SECOND = (0.45, 0.35)


def sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def probability(path: tuple[int, ...]) -> float:
    product = 1.0
    for logit, choice in zip(LOGITS, path, strict=False):
        product *= sigmoid(logit) if choice else 1 - sigmoid(logit)
    return product


def score(path: tuple[int, ...], turn: int) -> torch.Tensor:
    """Gradient of the log-probability of choice `turn` in the two logits."""
    gradient = torch.zeros(2, dtype=torch.float64)
    if turn < len(path):
        gradient[turn] = path[turn] - sigmoid(LOGITS[turn])
    return gradient


def true_gradient(world: dict[tuple[int, ...], float]) -> torch.Tensor:
    total = torch.zeros(2, dtype=torch.float64)
    for path, reward in world.items():
        total += probability(path) * reward * sum((score(path, turn) for turn in range(len(path))), torch.zeros(2, dtype=torch.float64))
    return total


def expected_gradient(credit: str, worlds: tuple[int, ...], group_size: int) -> torch.Tensor:
    """The mean over all possible batches of the policy gradient that these advantages give; dialogue d is in world `worlds[d]`."""
    total = torch.zeros(2, dtype=torch.float64)
    for paths in itertools.product(WORLDS[0], repeat=len(worlds)):
        weight = math.prod(probability(path) for path in paths)
        reward = tensor(*(WORLDS[world][path] for world, path in zip(worlds, paths, strict=True)))
        before = torch.tensor(
            [[0.4, EMOTION_BEFORE_SECOND[world] if len(path) == 2 else NAN] for world, path in zip(worlds, paths, strict=True)],
            dtype=torch.float64,
        )
        if credit == "turn":
            advantage = turn_advantages(reward, before, group_size, "none")
        elif credit == "state":
            advantage = state_advantages(reward, before, "none")
        else:
            advantage = group_advantages(reward, group_size, "none")[:, None].expand(-1, 2)
        for row, path in enumerate(paths):
            for turn in range(len(path)):
                total += weight * advantage[row, turn] * score(path, turn) / len(worlds)
    return total


@pytest.mark.parametrize("credit", ["turn", "state"])
@pytest.mark.parametrize(("worlds", "group_size"), [((0, 0), 2), ((0, 0, 0), 3), ((0, 0, 1, 1), 2)])
def test_credit_by_turn_does_not_bend_the_gradient_where_the_policy_decides_when_to_stop(
    credit: str, worlds: tuple[int, ...], group_size: int
) -> None:
    truth = sum((true_gradient(WORLDS[world]) for world in worlds), torch.zeros(2, dtype=torch.float64)) / len(worlds)
    torch.testing.assert_close(expected_gradient(credit, worlds, group_size), truth, atol=1e-12, rtol=0)


def test_dialogue_credit_points_the_same_way_shortened_by_the_groups_own_share_in_its_mean() -> None:
    # subtracting a mean that contains the dialogue itself scales the gradient by (n - 1) / n
    truth = true_gradient(WORLDS[0])
    torch.testing.assert_close(expected_gradient("dialogue", (0, 0), 2), truth / 2, atol=1e-12, rtol=0)
    torch.testing.assert_close(expected_gradient("dialogue", (0, 0, 0), 3), truth * 2 / 3, atol=1e-12, rtol=0)


# Another world of two turns. The first choice (one token) changes nothing but how long the second turn is: after 0, one that goes well has
# 4 tokens and one that goes badly 1; after 1, both have 1. The emotion before the second turn is that of the start.
FIRST, GOES_WELL = 0.6, 0.5  # the policy's probabilities of first choice 1, and of a second turn that goes well
TOKENS = {(0, 1): 5, (0, 0): 2, (1, 1): 2, (1, 0): 2}  # of the whole dialogue


def gradient_of_the_first_choice(divisor: Callable[[tuple[int, int]], float]) -> float:
    """The mean over all possible groups of two of the gradient in the logit of the first choice, each dialogue divided by `divisor`."""
    total = 0.0
    before = torch.full((2, 2), 0.4, dtype=torch.float64)
    for paths in itertools.product(TOKENS, repeat=2):
        weight = math.prod((FIRST if one else 1 - FIRST) * (GOES_WELL if well else 1 - GOES_WELL) for one, well in paths)
        advantage = turn_advantages(tensor(*(float(well) for _, well in paths)), before, 2, "none")
        for row, path in enumerate(paths):
            total += weight * float(advantage[row, 0]) * (path[0] - FIRST) / divisor(path) / 2
    return total


def test_turn_credit_is_unbiased_over_a_constant_and_biased_over_the_dialogues_own_length() -> None:
    """The first choice earns nothing, so its true gradient is 0. Divided by its own length, a dialogue that goes well after 0 counts less
    than one that goes badly: .24 x (E[A/L | 1] - E[A/L | 0]) = .24 x (0 - .5 x (.5/5 - .5/2)) = .018, a push towards 1 for nothing."""
    assert gradient_of_the_first_choice(lambda path: 5) == pytest.approx(0.0, abs=1e-12)
    assert gradient_of_the_first_choice(lambda path: TOKENS[path]) == pytest.approx(0.018, abs=1e-12)
