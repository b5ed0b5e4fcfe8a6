"""The small net above the states of the language model, and how it is fitted to states that do not change."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from rlver.components.users.heard.reading import OUTPUTS, QUALITIES, scaled

INNER, DROP_FEATURES, DROP_INNER = 256, 0.3, 0.5
EPOCHS, BATCH = 10, 64
RATE, WEIGHT_DECAY = 2e-3, 1e-2
CALIBRATED = [number for number, name in enumerate(OUTPUTS) if name in QUALITIES or name.startswith("above")]
_FURTHEST, _HALVINGS = 5.0, 40
Told = Callable[[str], None]


class Net(nn.Module):
    """(N, F) features to (N, OUTPUTS) logits. `some_NF` are features that say what mean and scale of each are."""

    def __init__(self, some_NF: torch.Tensor, drop_features: float, drop_inner: float) -> None:
        super().__init__()
        self.mean_F, self.scale_F = some_NF.mean(dim=0), some_NF.std(dim=0) + 1e-6
        self.inner, self.out = nn.Linear(some_NF.shape[1], INNER), nn.Linear(INNER, len(OUTPUTS))
        self.drop_features, self.drop_inner = nn.Dropout(drop_features), nn.Dropout(drop_inner)

    def forward(self, features_NF: torch.Tensor) -> torch.Tensor:
        inner_NI = nn.functional.gelu(self.inner(self.drop_features(scaled(features_NF, self.mean_F, self.scale_F))))
        return self.out(self.drop_inner(inner_NI))  # type: ignore[no-any-return]

    def tensors(self, reading: str) -> dict[str, torch.Tensor]:
        """As Reader loads them."""
        layers = {"in": self.inner, "out": self.out}
        weights = {f"{name}.{kind}": weight for name, layer in layers.items() for kind, weight in layer.named_parameters()}
        return {f"{reading}.{name}": tensor for name, tensor in {"mean": self.mean_F, "scale": self.scale_F, **weights}.items()}


def weighted_loss(logits_NO: torch.Tensor, targets_NO: torch.Tensor, weights_NO: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy; targets are 0, 1 or nan (unknown)."""
    each_NO = binary_cross_entropy_with_logits(logits_NO, targets_NO.nan_to_num(), reduction="none")
    weights_NO = weights_NO * ~targets_NO.isnan()
    return (each_NO * weights_NO).sum() / weights_NO.sum()


def fit_net(features_NF: torch.Tensor, targets_NO: torch.Tensor, weights_NO: torch.Tensor, seed: int, tell: Told) -> Net:
    torch.manual_seed(seed)
    net = Net(features_NF, DROP_FEATURES, DROP_INNER)
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=WEIGHT_DECAY)
    steps = EPOCHS * -(-len(features_NF) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for epoch in range(1, EPOCHS + 1):
        loss_sum = 0.0
        for batch in torch.split(torch.randperm(len(features_NF)), BATCH):
            loss = weighted_loss(net(features_NF[batch]), targets_NO[batch], weights_NO[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            loss_sum += loss.item() * len(batch)
        tell(f"the model as it came, pass {epoch} of {EPOCHS}, loss {loss_sum / len(features_NF):.3f}")
    return net


@torch.no_grad()
def claimed_too_low(net: Net, features_NF: torch.Tensor, targets_NO: torch.Tensor) -> torch.Tensor:
    """(OUTPUTS,): what to add to the logits of CALIBRATED, so that they claim each of these as often as it is labelled in rows that `net` never saw.

    A row whose target is nan says nothing of that output. Raises ValueError where no row says anything.

    Made nonsense and replies under strange messages are fitted to show what nonsense is, not how often it occurs.
    """
    logits_NO, offset_O = net.eval()(features_NF), torch.zeros(len(OUTPUTS))
    for output in CALIBRATED:
        known_N = ~targets_NO[:, output].isnan()
        if not known_N.any():
            raise ValueError(f"no held reply is labelled with {OUTPUTS[output]} or without: nothing says how often it is claimed too low")
        labelled, low, high = targets_NO[known_N, output].mean(), -_FURTHEST, _FURTHEST
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if (logits_NO[known_N, output] + middle).sigmoid().mean() < labelled else (low, middle)
        offset_O[output] = middle
    return offset_O
