"""Fitting the reader of the hearing appraiser to labelled replies, the same on every run of a machine: small nets over what the language model makes of them.

Styles and situations that are kept apart (components/labels) are never looked at here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from rlver.components.domain.acts import ACTS
from rlver.components.domain.files import write_bytes_atomically
from rlver.components.labels.labelled import Labelled
from rlver.components.users.heard.language import LanguageModel, language_model
from rlver.components.users.heard.reading import OUTPUTS, QUALITIES, SIGNS_HEARD, VALUES, circumstances, scaled
from rlver.components.users.special.signs import SIGNS
from rlver.tasks.studies.hearing.nonsense import MADE
from rlver.tasks.studies.hearing.sense import fit_sense, with_overlaps
from rlver.tasks.studies.special.signs_found import LabelledSigns

NETS, INNER, EPOCHS, BATCH = 3, 192, 50, 64
LEARNING_RATE, WEIGHT_DECAY, DROP_FEATURES, DROP_INNER = 2e-3, 1e-2, 0.3, 0.5
_TOLD_EVERY = 1000
Told = Callable[[str], None]


def features(model: LanguageModel, rows: Sequence[Labelled | LabelledSigns], tell: Told = lambda line: None) -> torch.Tensor:
    """(N, WIDTH + CIRCUMSTANCES)"""
    found = []
    for number, row in enumerate(rows, start=1):
        found.append(torch.cat([model(row.user, row.reply).features(), circumstances(row.reply, row.user, row.before)]))
        if number % _TOLD_EVERY == 0:
            tell(f"{number} of {len(rows)} replies read")
    return torch.stack(found)


def targets(rows: Sequence[Labelled | LabelledSigns]) -> torch.Tensor:
    """(N, OUTPUTS) of 0 and 1, and of nan where the labels of a reply say nothing."""
    return torch.tensor([_target(row) for row in rows])


def _target(row: Labelled | LabelledSigns) -> list[float]:
    if isinstance(row, LabelledSigns):
        signs = [float(sign in row.signs) if sign in SIGNS[row.kind] else math.nan for sign in SIGNS_HEARD]
        return [*[math.nan] * (len(OUTPUTS) - len(signs)), *signs]
    acts, qualities = (float(act in row.acts) for act in ACTS), (float(quality in row.quality) for quality in QUALITIES)
    return [*acts, *qualities, *(float(row.value > value) for value in VALUES[:-1]), *[math.nan] * len(SIGNS_HEARD)]


def fit(
    rows: Sequence[Labelled | LabelledSigns],
    strict: Sequence[Labelled],
    plain: Sequence[Labelled],
    out: Path,
    seed: int,
    tell: Told = lambda line: None,
) -> None:
    """Write what was fitted to the safetensors file `out`: the nets to `rows`, sense to `strict` and `plain` (sense.py). Raises NotFetched."""
    features_NF, targets_NO = features(language_model(), rows, tell), targets(rows)
    mean, scale = features_NF.mean(dim=0), features_NF.std(dim=0) + 1e-6
    scaled_NF = scaled(features_NF, mean, scale)
    tensors = {"mean": mean, "scale": scale}
    for number in range(NETS):
        net, loss = fitted_net(scaled_NF, targets_NO, seed + number)
        tensors |= {f"{number}.in.weight": net[1].weight, f"{number}.in.bias": net[1].bias}
        tensors |= {f"{number}.out.weight": net[4].weight, f"{number}.out.bias": net[4].bias}
        tell(f"net {number + 1}: loss {loss:.3f}")
    tell(f"reading {len(strict)} replies of small models and {len(plain)} that were written in their manner")
    of_strict, of_plain = (with_overlaps(features(language_model(), read, tell), read) for read in (strict, plain))
    others = [(number, row) for number, row in enumerate(rows) if isinstance(row, Labelled) and row.style != MADE]
    of_others = with_overlaps(features_NF[[number for number, _ in others]], [row for _, row in others])
    tensors |= fit_sense(of_strict, strict, of_plain, of_others)
    small = {name: tensor.detach().half().contiguous() for name, tensor in tensors.items()}
    notes = {"nets": json.dumps(NETS), "replies": json.dumps(len(rows)), "strict": json.dumps(len(strict)), "outputs": json.dumps(OUTPUTS)}
    write_bytes_atomically(out, save(small, metadata=notes))


def fitted_net(scaled_NF: torch.Tensor, targets_NO: torch.Tensor, seed: int) -> tuple[Any, float]:
    """A net over features (N, F) that gives (N, OUTPUTS) before the sigmoid, and its mean loss in the last pass."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Dropout(DROP_FEATURES), nn.Linear(scaled_NF.shape[1], INNER), nn.GELU(), nn.Dropout(DROP_INNER), nn.Linear(INNER, len(OUTPUTS))
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps = EPOCHS * -(-len(scaled_NF) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    losses: list[float] = []
    for _ in range(EPOCHS):
        losses = []
        for batch in torch.split(torch.randperm(len(scaled_NF)), BATCH):
            known = ~targets_NO[batch].isnan()
            loss = nn.functional.binary_cross_entropy_with_logits(net(scaled_NF[batch])[known], targets_NO[batch][known])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    return net, sum(losses) / len(losses)
