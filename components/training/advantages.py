"""What each dialogue, and each turn of it, is credited with. Pure tensors; groups are dialogues of the same persona and opener.

The objective is always the reward at the end of the dialogue. `turn` credit subtracts what was known before the turn (the emotion
then, and how other dialogues of the group went on from there): a baseline that does not depend on the turn's own words leaves the
gradient unbiased and takes most of its variance away. `state` credit does so with what dialogues of any persona earned from where this one stood.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

_SMALL = 1e-4
_NONE = 1e-6  # an advantage smaller than this is what is left of equal rewards when they are rounded
_RIDGE = 1.0  # as much as one turn more whose numbers are all 1


def group_advantages(reward_D: torch.Tensor, group_size: int, scale: str) -> torch.Tensor:
    """GRPO advantages (D,) of rewards (D,), consecutive `group_size` dialogues forming a group (DeepSeekMath, equation 3).

    NaN rewards (unscorable dialogues) do not count in mean or deviation and get 0. `scale`: `group` divides by the group's standard
    deviation, `batch` by that of all centred rewards, `none` by nothing.
    """
    _check_groups(reward_D.shape[0], group_size)
    reward_GN = reward_D.view(-1, group_size)
    centred_GN = _standardised(reward_GN, dim=1) if scale == "group" else reward_GN - reward_GN.nanmean(dim=1, keepdim=True)
    return _scaled(centred_GN.reshape(-1), scale)


def turn_advantages(
    reward_D: torch.Tensor, emotion_before_DK: torch.Tensor, group_size: int, scale: str, gamma: float = 1.0
) -> torch.Tensor:
    """Advantages (D, K) of each of at most K turns; `emotion_before_DK` is the emotion (0..1) before turn k, NaN where none was.

    The return to go from turn k is reward − emotion before k (the sum of the remaining changes), with `gamma` below 1 the discounted sum of those
    changes, which asks for a soon gain at the price of a bias. Its baseline is the
    mean return to go of the *other* dialogues of the group that reached turn k, or of the other groups' where there is none.
    Unscorable dialogues (NaN reward) get 0 and serve nobody as a baseline.
    """
    _check_groups(reward_D.shape[0], group_size)
    return_DK = discounted(reward_D, emotion_before_DK, gamma)
    present_DK = ~return_DK.isnan()
    value_DK = return_DK.nan_to_num()
    group_sum, group_count = (_per_group(x, group_size) for x in (value_DK, present_DK.to(value_DK)))
    others_sum, others_count = group_sum - value_DK, group_count - present_DK.to(value_DK)
    all_sum, all_count = value_DK.sum(dim=0, keepdim=True) - group_sum, present_DK.sum(dim=0, keepdim=True) - group_count
    elsewhere = all_sum / all_count.clamp_min(1)
    baseline_DK = torch.where(others_count > 0, others_sum / others_count.clamp_min(1), elsewhere)
    advantage_DK = torch.where(present_DK, value_DK - baseline_DK, torch.nan)
    _check_scale(scale)
    return _scaled(advantage_DK, scale)


def state_advantages(reward_D: torch.Tensor, emotion_before_DK: torch.Tensor, scale: str, gamma: float = 1.0) -> torch.Tensor:
    """Advantages (D, K) of each turn against what was to be expected from where its dialogue stood, whoever the persona.

    The return to go is that of `turn_advantages`. Its baseline is a ridge regression on what is known before the turn (`_standing`), fitted to the
    turns of all *other* dialogues, so it does not depend on the turn's own words. After a fall a turn is compared with turns after falls: one that
    falls again for having tried something new is not blamed for where it began. Unscorable dialogues (NaN reward) get 0 and count in no fit.
    """
    return_DK = discounted(reward_D, emotion_before_DK, gamma).double()
    present_DK = ~return_DK.isnan()
    standing_DKF = _standing(emotion_before_DK.double()) * present_DK[:, :, None]
    gram_DFF = standing_DKF.transpose(1, 2) @ standing_DKF
    product_DF = (standing_DKF * return_DK.nan_to_num()[:, :, None]).sum(dim=1)
    ridge_F = torch.full((standing_DKF.shape[2],), _RIDGE, dtype=torch.float64)
    ridge_F[0] = _SMALL  # the mean is not drawn to 0
    others_DFF, others_DF = gram_DFF.sum(dim=0) - gram_DFF, product_DF.sum(dim=0) - product_DF
    weights_DF = torch.linalg.solve(others_DFF + torch.diag(ridge_F), others_DF)
    expected_DK = torch.einsum("dkf,df->dk", standing_DKF, weights_DF)
    _check_scale(scale)
    return _scaled(torch.where(present_DK, return_DK - expected_DK, torch.nan), scale).to(reward_D.dtype)


def _standing(emotion_before_DK: torch.Tensor) -> torch.Tensor:
    """(D, K, 7) what is known before a turn, in numbers of about 1: a constant, how many turns there were, the emotion and how it last changed."""
    change_DK = torch.nn.functional.pad(emotion_before_DK.diff(dim=1), (1, 0)).nan_to_num()
    turn_DK = torch.arange(emotion_before_DK.shape[1], dtype=torch.float64).expand_as(emotion_before_DK)
    known = (
        torch.ones_like(turn_DK),
        turn_DK == 0,
        turn_DK / 10,
        emotion_before_DK.nan_to_num(),
        change_DK * 10,
        change_DK > 0,
        change_DK < 0,
    )
    return torch.stack([one.double() for one in known], dim=2)


def discounted(reward_D: torch.Tensor, emotion_before_DK: torch.Tensor, gamma: float) -> torch.Tensor:
    """(D, K) the return from turn k on: reward − emotion before k, or with `gamma` below 1 the discounted sum of the changes.

    NaN where there was no such turn or the dialogue could not be scored.
    """
    return_DK = reward_D[:, None] - emotion_before_DK
    if gamma == 1:
        return return_DK
    absent_DK, change_DK = return_DK.isnan(), turn_rewards(reward_D, emotion_before_DK, dense=True)
    to_go_DK, _ = gae(change_DK, torch.zeros_like(change_DK), ~absent_DK, gamma, gae_lambda=1.0)  # without a critic: the return itself
    return to_go_DK.masked_fill(absent_DK, torch.nan)


def mica_advantages(reward_D: torch.Tensor, emotion_before_DK: torch.Tensor, group_size: int, delayed_share: float = 0.5) -> torch.Tensor:
    """Advantages (D, K) as in MICA (Zhang et al. 2026, arXiv 2603.06194), with the emotion (0..1) as the potential.

    `delayed_share` of a turn's credit is its return to go, in deviations from the group's at the same turn; the rest is its own change of
    emotion, in deviations from those of all turns of the group. A turn without another to compare with gets 0 for that part, as do the
    turns of unscorable dialogues (NaN reward), which count in nothing.
    """
    _check_groups(reward_D.shape[0], group_size)
    return_DK = reward_D[:, None] - emotion_before_DK
    change_DK = turn_rewards(reward_D, emotion_before_DK, dense=True).masked_fill(return_DK.isnan(), torch.nan)
    width = return_DK.shape[1]
    delayed_DK = _standardised(return_DK.view(-1, group_size, width), dim=1).view(-1, width)
    immediate_DK = _standardised(change_DK.view(-1, group_size * width), dim=1).view(-1, width)
    return (delayed_share * delayed_DK + (1 - delayed_share) * immediate_DK).nan_to_num()


def zero_advantage_groups(advantage_DK: torch.Tensor, group_size: int) -> torch.Tensor:
    """(D,) True for the dialogues of groups in which no turn has an advantage."""
    moved_G = (advantage_DK.reshape(-1, group_size * advantage_DK.shape[1]).abs() > _NONE).any(dim=1)
    return ~moved_G.repeat_interleave(group_size)


def gae(
    reward_DT: torch.Tensor, value_DT: torch.Tensor, acts_DT: torch.Tensor, gamma: float, gae_lambda: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Generalised advantage estimates and value targets, both (D, T), 0 where the policy does not act (Schulman et al. 2016, equation 16).

    `acts_DT` marks the policy's steps: tokens, or whole turns. The state after one is the next one of the same dialogue, however
    many of the user's tokens lie between; rewards and values in between never enter. After the last one the value is 0.
    """
    acts = acts_DT.bool()
    advantage_DT = torch.zeros_like(value_DT)
    next_value_D = next_advantage_D = torch.zeros_like(value_DT[:, 0])
    for t in reversed(range(value_DT.shape[1])):
        error_D = reward_DT[:, t] + gamma * next_value_D - value_DT[:, t]
        advantage_D = error_D + gamma * gae_lambda * next_advantage_D
        advantage_DT[:, t] = torch.where(acts[:, t], advantage_D, 0.0)
        next_advantage_D = torch.where(acts[:, t], advantage_D, next_advantage_D)
        next_value_D = torch.where(acts[:, t], value_DT[:, t], next_value_D)
    return advantage_DT, torch.where(acts, advantage_DT + value_DT, 0.0)


def turn_rewards(reward_D: torch.Tensor, emotion_before_DK: torch.Tensor, dense: bool) -> torch.Tensor:
    """Rewards (D, K) of the turns of each dialogue, given its reward (D,) and the emotion (0..1) before each turn, NaN where none was.

    Terminal: all of it at the last turn. Dense: each turn gets the change of the emotion up to the next turn, the last one what is
    left of the reward, so that they sum to the reward less the emotion at the start (Ng et al. 1999: the best policy stays the same).
    """
    present_DK = ~emotion_before_DK.isnan()
    last_D = present_DK.sum(dim=1) - 1
    rows = torch.arange(len(reward_D))[last_D >= 0]
    reward_DK = torch.zeros_like(emotion_before_DK)
    reward_DK[rows, last_D[rows]] = reward_D[rows]
    if dense:
        after_DK = torch.cat([emotion_before_DK[:, 1:], torch.full_like(emotion_before_DK[:, :1], torch.nan)], dim=1).nan_to_num()
        reward_DK = reward_DK + torch.where(present_DK, after_DK - emotion_before_DK.nan_to_num(), 0.0)
    return reward_DK


def whitened(
    advantage: torch.Tensor, mask: torch.Tensor, over_processes: Callable[[torch.Tensor], torch.Tensor] = lambda moments: moments
) -> torch.Tensor:
    """`advantage` where `mask` holds, centred and scaled to deviation 1; 0 elsewhere. `over_processes` adds up (count, sum, squares)."""
    chosen = advantage[mask]
    count, total, squares = over_processes(torch.stack([mask.sum().to(chosen.dtype), chosen.sum(), chosen.square().sum()]))
    mean = total / count.clamp_min(1)
    deviation = (squares / count.clamp_min(1) - mean.square()).clamp_min(0).sqrt()
    return torch.where(mask, (advantage - mean) / (deviation + _SMALL), 0.0)


def _standardised(x: torch.Tensor, dim: int) -> torch.Tensor:
    """In deviations from the mean along `dim`, NaN left out; 0 where there is but one number, or all are equal."""
    centred = _without_rounding(x - x.nanmean(dim=dim, keepdim=True))
    count = (~x.isnan()).sum(dim=dim, keepdim=True)
    deviation = (centred.nan_to_num().square().sum(dim=dim, keepdim=True) / (count - 1).clamp_min(1)).sqrt()
    return centred / (deviation + _SMALL)


def _per_group(x_DK: torch.Tensor, group_size: int) -> torch.Tensor:
    """The group's sum, repeated for each of its dialogues: (D, K)."""
    return x_DK.view(-1, group_size, x_DK.shape[1]).sum(dim=1).repeat_interleave(group_size, dim=0)


def _scaled(advantage: torch.Tensor, scale: str) -> torch.Tensor:
    """NaN becomes 0; with `batch` the rest is divided by its root mean square."""
    advantage = _without_rounding(advantage)
    if scale == "batch":
        root_mean_square = advantage[~advantage.isnan()].square().mean().sqrt() if (~advantage.isnan()).any() else 0.0
        advantage = advantage / (root_mean_square + _SMALL)
    return advantage.nan_to_num()


def _without_rounding(centred: torch.Tensor) -> torch.Tensor:
    """0 for what would be 0 without rounding: divided by a deviation as small, it would pass for an advantage."""
    return centred.masked_fill(centred.abs() < _NONE, 0.0)


def _check_scale(scale: str) -> None:
    if scale == "group":
        raise ValueError("train.scale_rewards: group does not go with train.credit: turn or state; use batch or none")


def _check_groups(dialogues: int, group_size: int) -> None:
    if group_size < 2 or dialogues % group_size:
        raise ValueError(f"{dialogues} dialogues do not make whole groups of {group_size} (a group has at least 2)")
