"""Fitting the reader of the hearing appraiser to labelled replies, the same on every run of a machine: small nets on the features of the reply alone,
and a changed encoder with a net of its own for the reply as an answer (adapt.py).

Styles and situations that are kept apart (components/labels) are never looked at here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from tokenizers import Tokenizer
from torch import nn

from rlver.components.domain.acts import ACTS
from rlver.components.domain.files import write_bytes_atomically
from rlver.components.labels.labelled import Labelled
from rlver.components.users.heard.encoder import Encoder, number_of
from rlver.components.users.heard.reading import CIRCUMSTANCES, OUTPUTS, QUALITIES, VALUES, context_features
from rlver.tasks.studies.hearing.adapt import AnswerNet, adapted, pairs

NETS, INNER, EPOCHS, BATCH = 3, 192, 50, 64
LEARNING_RATE, WEIGHT_DECAY, DROP_FEATURES, DROP_INNER = 2e-3, 1e-2, 0.3, 0.5
Told = Callable[[str], None]


def features(encoder: Encoder, rows: Sequence[Labelled]) -> torch.Tensor:
    """(N, WIDTH + HIDDEN + 1 + CIRCUMSTANCES)"""
    found = []
    for row in rows:
        read, context = encoder(row.reply), encoder(row.user)
        found.append(torch.cat([read.mean_W, context_features(row.reply, row.user, row.before, read, context)]))
    return torch.stack(found)


def targets(rows: Sequence[Labelled]) -> torch.Tensor:
    """(N, OUTPUTS) of 0 and 1."""
    return torch.tensor(
        [
            [
                *(float(act in row.acts) for act in ACTS),
                *(float(quality in row.quality) for quality in QUALITIES),
                *(float(row.value > v) for v in VALUES[:-1]),
            ]
            for row in rows
        ]
    )


def fit(weights: Path, rows: Sequence[Labelled], out: Path, seed: int, tell: Told = lambda line: None) -> None:
    """Write what was fitted to `rows` to the safetensors file `out`; `weights` is the folder of the encoder as it comes."""
    features_NF, targets_NO = features(Encoder(weights), rows), targets(rows)
    mean, scale = features_NF.mean(dim=0), features_NF.std(dim=0) + 1e-6
    scaled_NF = (features_NF - mean) / scale
    tensors = {"mean": mean, "scale": scale}
    for number in range(NETS):
        net, loss = fitted_net(scaled_NF, targets_NO, seed + number)
        tensors |= {f"{number}.in.weight": net[1].weight, f"{number}.in.bias": net[1].bias}
        tensors |= {f"{number}.out.weight": net[4].weight, f"{number}.out.bias": net[4].bias}
        tell(f"net {number + 1}: loss {loss:.3f}")
    tensors |= _answer_net(weights, rows, scaled_NF[:, -CIRCUMSTANCES:], targets_NO, seed, tell)
    small = {name: tensor.detach().half().contiguous() for name, tensor in tensors.items()}
    notes = {"nets": json.dumps(NETS), "replies": json.dumps(len(rows)), "outputs": json.dumps(OUTPUTS)}
    write_bytes_atomically(out, save(small, metadata=notes))


def _answer_net(
    weights: Path, rows: Sequence[Labelled], circumstances_NC: torch.Tensor, targets_NO: torch.Tensor, seed: int, tell: Told
) -> dict[str, torch.Tensor]:
    tokenizer = Tokenizer.from_file(str(weights / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    torch.manual_seed(seed)
    net = AnswerNet(load_file(weights / "model.safetensors"), number_of(tokenizer, "[MASK]"))
    read = pairs(tokenizer, [(row.user, row.reply) for row in rows])
    adapted(net, read, circumstances_NC, targets_NO, lambda number, loss: tell(f"pass {number + 1} over the answers: loss {loss:.3f}"))
    return net.tensors()


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
            loss = nn.functional.binary_cross_entropy_with_logits(net(scaled_NF[batch]), targets_NO[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    return net, sum(losses) / len(losses)
