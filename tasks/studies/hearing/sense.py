"""Fitting the second reading of sense (components/users/heard/sense.py): two logistic regressions, the same on every run of a machine.

Coherence is fitted to replies of small models that were labelled strictly (half sense is no sense), and to replies that were written for the same users in the
same manner, as coherent. How far a reply is of that kind is told from all other labelled replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from rlver.components.labels.labelled import Labelled
from rlver.components.labels.warmup import GOOD, collection
from rlver.components.users.heard.sense import OVERLAPS, overlaps, standardised

WRITTEN, DIALOGUES, DRAWN = "taking_up", 230, 3  # so many dialogues of this collection, drawn with this seed
WRITTEN_WEIGHT = 0.15  # of a written reply, where a strictly labelled one has 1
PRICE_STATES, PRICE_OVERLAPS = 3.0, 0.1  # of squared weights; chosen on four folds by situation (docs/log.md)
PRICE_KIND = 0.01  # the same of telling the kind, which is easy
_PASSES = 80


def written() -> list[Labelled]:
    """Replies of dialogues written for the warm-up, as coherent ones."""
    coherent = frozenset({"coherent"})
    return [
        Labelled(WRITTEN, f"{WRITTEN}/{turn}", user, " ".join(one.users[:turn]), reply, frozenset(), int(mark == GOOD), coherent, None)
        for one in Random(DRAWN).sample(collection(WRITTEN), DIALOGUES)
        for turn, (user, reply, mark) in enumerate(zip(one.users, one.replies, one.marks, strict=True))
    ]


def with_overlaps(features_NF: torch.Tensor, rows: Sequence[Labelled]) -> torch.Tensor:
    """(N, F + OVERLAPS)"""
    return torch.cat([features_NF, torch.stack([overlaps(row.reply, row.user, row.before) for row in rows])], dim=1)


def fit_sense(
    strict_NF: torch.Tensor, strict: Sequence[Labelled], written_MF: torch.Tensor, others_KF: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The tensors of Sense. Features have their overlaps; `strict` are the rows of the first."""
    own_NF = torch.cat([strict_NF, written_MF])
    mean_F, scale_F = own_NF.mean(dim=0), own_NF.std(dim=0) + 1e-6
    own_NF, others_KF = standardised(own_NF, mean_F, scale_F), standardised(others_KF, mean_F, scale_F)
    of_own, of_others = torch.ones(len(own_NF)), torch.ones(len(others_KF))
    gate, gate_bias = _logistic(
        torch.cat([own_NF, others_KF]),
        torch.cat([of_own, torch.zeros(len(others_KF))]),
        torch.cat([of_own / len(of_own), of_others / len(of_others)]),
        torch.full_like(mean_F, PRICE_KIND),
    )
    price_F = torch.full_like(mean_F, PRICE_STATES)
    price_F[-OVERLAPS:] = PRICE_OVERLAPS
    coherent = torch.tensor([float("coherent" in row.quality) for row in strict])
    many = torch.ones(len(written_MF))
    sense, sense_bias = _logistic(own_NF, torch.cat([coherent, many]), torch.cat([torch.ones(len(strict)), many * WRITTEN_WEIGHT]), price_F)
    return {
        "sense.mean": mean_F,
        "sense.scale": scale_F,
        "sense.weight": torch.stack([gate, sense]),
        "sense.bias": torch.stack([gate_bias, sense_bias]),
    }


def _logistic(
    features_NF: torch.Tensor, is_so_N: torch.Tensor, weight_N: torch.Tensor, price_F: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights (F,) and bias of a logistic regression over rows of these weights, with a price on squared weights."""
    weights, bias = torch.zeros(features_NF.shape[1], requires_grad=True), torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=_PASSES)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        each = binary_cross_entropy_with_logits(features_NF @ weights + bias, is_so_N, weight_N / weight_N.sum(), reduction="sum")
        total = each + (price_F * weights**2).sum() / 2
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weights.detach(), bias.detach()
