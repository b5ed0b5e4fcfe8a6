"""Fitting the reader end to end: adapters (LoRA) in the upper layers of its language model, and one net above its states.

The same on every run of a machine, also when it is stopped and goes on (halfway.py). The lower layers stay as they are, so what they make of each
reply is computed once and kept, in memory and on disk (3 GB for 28,000 replies). Products are in bfloat16.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from rlver.components.users.heard.language import ADAPTED, DOWN, ENDS, HIDDEN, MEANS, UP, Prompted, likely, through, whole_model
from rlver.components.users.heard.likelihood import LIKELIHOODS, likelihoods
from rlver.tasks.studies.hearing.halfway import Halfway
from rlver.tasks.studies.hearing.net import Net, Told, weighted_loss

EPOCHS, BATCH = 3, 32
RANK = 8
DROP_FEATURES, DROP_INNER = 0.2, 0.3
RATE_ADAPTER, RATE_NET, WEIGHT_DECAY = 5e-4, 1e-3, 0.02
_WARM_UP, _LEAST_RATE, _LARGEST_GRADIENT = 60, 0.02, 1.0  # steps, share of the rate, norm
_SCALED_ON = 1000  # replies that say what mean and scale of the states are before anything is fitted
_LIKE_LENGTH = 8  # tokens; a batch holds replies of about one length
_TOLD_EVERY = 50  # batches
_SAVED_EVERY = 100  # steps
_STEPS = "steps"  # the file of a training halfway
_LOWER = [layer for layer in MEANS if layer <= ADAPTED.start]
_MODULES = rf"layers\.({'|'.join(map(str, ADAPTED))})\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"


@dataclass(frozen=True)
class _Kept:
    """What the model as it came makes of a reply: the states that the adapted layers begin with, and what is taken of it."""

    states_TH: torch.Tensor
    begin: int
    came_F: torch.Tensor  # as Answer.features


class Adapting:
    """The model with adapters, and the net. `read` are the replies as tokens, `beside_NC` their circumstances."""

    def __init__(self, folder: Path, read: Sequence[Prompted], beside_NC: torch.Tensor, seed: int, tell: Told, halfway: Halfway) -> None:
        torch.manual_seed(seed)
        self._random, self._tell, self._halfway, self._beside_NC = random.Random(seed), tell, halfway, beside_NC
        self._model: Any = whole_model(folder).requires_grad_(False)
        self._kept = self._keep(read)
        del self._model.layers[ADAPTED.stop :]
        config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=_MODULES)
        inject_adapter_in_model(config, self._model)
        with torch.no_grad():
            some = self._random.sample(range(len(read)), min(_SCALED_ON, len(read)))
            features_NF = torch.cat([self._adapted(some[first : first + BATCH]) for first in range(0, len(some), BATCH)])
        self._net = Net(features_NF, DROP_FEATURES, DROP_INNER)

    def fit(self, targets_NO: torch.Tensor, weights_NO: torch.Tensor) -> dict[str, torch.Tensor]:
        """The tensors that Reader loads. `targets_NO` are 0, 1 or nan, `weights_NO` how much each of them counts."""
        adapters = [weight for weight in self._model.parameters() if weight.requires_grad]
        groups = [{"params": adapters, "lr": RATE_ADAPTER}, {"params": list(self._net.parameters()), "lr": RATE_NET}]
        optimizer = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY)
        batches = [batch for _ in range(EPOCHS) for batch in self._batches()]
        self._model.train(), self._net.train()
        begin, loss_sum = self._go_on(optimizer), 0.0
        for step, batch in enumerate(batches[begin:], begin):
            for group, rate in zip(optimizer.param_groups, (RATE_ADAPTER, RATE_NET), strict=True):
                group["lr"] = rate * min(1.0, (step + 1) / _WARM_UP) * max(_LEAST_RATE, 1 - step / len(batches))
            loss = weighted_loss(self._net(self._adapted(batch)), targets_NO[batch], weights_NO[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(adapters, _LARGEST_GRADIENT)
            optimizer.step()
            optimizer.zero_grad()
            done, loss_sum = step + 1, loss_sum + loss.item()
            if done % _SAVED_EVERY == 0:
                self._save(optimizer, done)
            if done % _TOLD_EVERY == 0:
                self._tell(f"step {done} of {len(batches)}, loss {loss_sum / _TOLD_EVERY:.3f}")
                loss_sum = 0.0
        return self._tensors()

    def _save(self, optimizer: torch.optim.Optimizer, done: int) -> None:
        weights = {f"weight.{number}": weight for number, weight in enumerate(_weights(optimizer))}
        moments = {f"{number}.{name}": value for number, of in optimizer.state_dict()["state"].items() for name, value in of.items()}
        self._halfway.save(_STEPS, {**weights, **moments, "done": torch.tensor(done), "chance": torch.get_rng_state()})

    def _go_on(self, optimizer: torch.optim.Optimizer) -> int:
        """Take up what was saved: how many steps are done."""
        saved = self._halfway.load(_STEPS)
        if saved is None:
            return 0
        weights = _weights(optimizer)
        with torch.no_grad():
            for number, weight in enumerate(weights):
                weight.copy_(saved[f"weight.{number}"])
        state = {number: {name: saved[f"{number}.{name}"] for name in ("step", "exp_avg", "exp_avg_sq")} for number in range(len(weights))}
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
        torch.set_rng_state(saved["chance"])
        return int(saved["done"])

    def came(self) -> torch.Tensor:
        """(N, F): states and circumstances, of the model as it came."""
        return torch.cat([torch.stack([one.came_F for one in self._kept]), self._beside_NC], dim=1)

    def _keep(self, read: Sequence[Prompted]) -> list[_Kept]:
        kept: dict[int, _Kept] = {}
        order = sorted(range(len(read)), key=lambda number: len(read[number].ids))
        for first in range(0, len(order), BATCH * _TOLD_EVERY):
            part = order[first : first + BATCH * _TOLD_EVERY]
            saved = self._halfway.load(f"read-{first}")
            if saved is None:
                batches = (part[at : at + BATCH] for at in range(0, len(part), BATCH))
                each = [one for batch in batches for one in self._read([read[number] for number in batch])]
                saved = {"states": torch.cat([states_TH for states_TH, _ in each]), "came": torch.stack([came_F for _, came_F in each])}
                self._halfway.save(f"read-{first}", saved)
                self._tell(f"{first + len(part)} of {len(read)} replies read")
            each_TH = torch.split(saved["states"], [len(read[number].ids) for number in part])
            kept |= {n: _Kept(states_TH, read[n].begin, came_F) for n, states_TH, came_F in zip(part, each_TH, saved["came"], strict=True)}
        return [kept[number] for number in range(len(read))]

    @torch.inference_mode()
    def _read(self, batch: Sequence[Prompted]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Of each its states (T, HIDDEN) and (F,) what is taken of the model as it came."""
        top = range(ADAPTED.stop, len(self._model.layers))
        ids_BT = nn.utils.rnn.pad_sequence([torch.tensor(one.ids) for one in batch], batch_first=True)
        with torch.autocast("cpu", torch.bfloat16):
            lower = through(self._model, self._model.embed_tokens(ids_BT), range(ADAPTED.start))
            taken = lower | through(self._model, lower[ADAPTED.start], ADAPTED)
            last_BTH = through(self._model, taken[top.start], top)[top.stop].float()
        states_BF = _features(taken, MEANS, [(one.begin, len(one.ids)) for one in batch])
        found = []
        for row, one in enumerate(batch):
            likely_L = likelihoods(likely(self._model, last_BTH[row : row + 1, : len(one.ids)], one))
            found.append((lower[ADAPTED.start][row, : len(one.ids)].bfloat16(), torch.cat([states_BF[row], likely_L])))
        return found

    def _adapted(self, batch: Sequence[int]) -> torch.Tensor:
        """(B, F): states and circumstances, of the adapted model."""
        kept = [self._kept[number] for number in batch]
        states_BTH = nn.utils.rnn.pad_sequence([one.states_TH for one in kept], batch_first=True)
        with torch.autocast("cpu", torch.bfloat16), sdpa_kernel(SDPBackend.MATH):  # its own kernel for CPUs takes a fifth longer
            taken = through(self._model, states_BTH, ADAPTED)
        upper_BF = _features(taken, MEANS[len(_LOWER) :], [(one.begin, len(one.states_TH)) for one in kept])
        came_BF = torch.stack([one.came_F for one in kept])
        lower_BF, likely_BL = came_BF[:, : HIDDEN * len(_LOWER)], came_BF[:, -LIKELIHOODS:]
        return torch.cat([lower_BF, upper_BF, likely_BL, self._beside_NC[list(batch)]], dim=1)

    def _batches(self) -> list[list[int]]:
        """All replies once, in another order each time."""
        order = sorted(
            range(len(self._kept)), key=lambda number: (len(self._kept[number].states_TH) // _LIKE_LENGTH, self._random.random())
        )
        batches = [order[first : first + BATCH] for first in range(0, len(order), BATCH)]
        self._random.shuffle(batches)
        return batches

    def _tensors(self) -> dict[str, torch.Tensor]:
        found = self._net.tensors("adapted")
        for name, module in self._model.named_modules():
            if hasattr(module, "lora_A"):
                scale = module.scaling["default"]
                found |= {name + DOWN: module.lora_A["default"].weight, name + UP: module.lora_B["default"].weight * scale}
        return found


def _weights(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def _features(taken: Mapping[int, torch.Tensor], means: Sequence[int], replies: Sequence[tuple[int, int]]) -> torch.Tensor:
    """(B, F) of the states `taken` of a batch: the means over each reply, which stands from one place to another, and the states at its end."""
    rows = []
    for row, (begin, end) in enumerate(replies):
        own = {layer: taken[layer][row, begin:end].float() for layer in means}
        rows.append(torch.cat([*(states_TH.mean(dim=0) for states_TH in own.values()), *(own[layer][-1] for layer in ENDS)]))
    return torch.stack(rows)
