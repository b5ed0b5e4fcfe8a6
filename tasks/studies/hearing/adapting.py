"""Fitting the reader end to end: adapters (LoRA) in the upper layers of its language model, and one net above its states.

The same on every run of a machine. The lower layers stay as they are, so what they make of each reply is computed once and kept (2 GB for 18,000 replies). Products are in bfloat16.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import binary_cross_entropy_with_logits

from rlver.components.users.heard.circumstances import CIRCUMSTANCES
from rlver.components.users.heard.language import ADAPTED, DOWN, ENDS, MEANS, UP, WIDTH, Prompted, lower_layers
from rlver.components.users.heard.reading import OUTPUTS, scaled

EPOCHS, BATCH = 3, 32
RANK = 8
INNER, DROP_FEATURES, DROP_INNER = 256, 0.2, 0.3
RATE_ADAPTER, RATE_NET, WEIGHT_DECAY = 5e-4, 1e-3, 0.02
_WARM_UP, _LEAST_RATE, _LARGEST_GRADIENT = 60, 0.02, 1.0  # steps, share of the rate, norm
_SCALED_ON = 1000  # replies that say what mean and scale of the states are before anything is fitted
_LIKE_LENGTH = 8  # tokens; a batch holds replies of about one length
_TOLD_EVERY = 50
_FIRST = ADAPTED.start
_MODULES = rf"layers\.({'|'.join(map(str, ADAPTED))})\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"
Told = Callable[[str], None]


@dataclass(frozen=True)
class _Kept:
    """What the frozen layers make of a reply: the states that the adapted ones begin with, and the means that are taken below them."""

    states_TH: torch.Tensor
    begin: int
    means_L: torch.Tensor


class Adapting:
    """The model with adapters, and the net. `read` are the replies as tokens, `beside_NC` their circumstances."""

    def __init__(self, folder: Path, read: Sequence[Prompted], beside_NC: torch.Tensor, seed: int, tell: Told) -> None:
        torch.manual_seed(seed)
        self._random, self._tell, self._beside_NC = random.Random(seed), tell, beside_NC
        self._model: Any = lower_layers(folder).requires_grad_(False)
        self._kept = self._keep(read)
        config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=_MODULES)
        inject_adapter_in_model(config, self._model)
        wide = WIDTH + CIRCUMSTANCES
        self._net = nn.Sequential(
            nn.Dropout(DROP_FEATURES), nn.Linear(wide, INNER), nn.GELU(), nn.Dropout(DROP_INNER), nn.Linear(INNER, len(OUTPUTS))
        )
        with torch.no_grad():
            some = self._random.sample(range(len(read)), min(_SCALED_ON, len(read)))
            features_NF = torch.cat([self._features(some[first : first + BATCH]) for first in range(0, len(some), BATCH)])
        self._mean_F, self._scale_F = features_NF.mean(dim=0), features_NF.std(dim=0) + 1e-6

    def fit(self, targets_NO: torch.Tensor, weights_NO: torch.Tensor) -> dict[str, torch.Tensor]:
        """The tensors that Reader loads. `targets_NO` are 0, 1 or nan, `weights_NO` how much each of them counts."""
        adapters = [weight for weight in self._model.parameters() if weight.requires_grad]
        groups = [{"params": adapters, "lr": RATE_ADAPTER}, {"params": list(self._net.parameters()), "lr": RATE_NET}]
        optimizer = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY)
        steps = EPOCHS * -(-len(targets_NO) // BATCH)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1.0, (step + 1) / _WARM_UP) * max(_LEAST_RATE, 1 - step / steps)
        )
        self._model.train(), self._net.train()
        done, loss_sum = 0, 0.0
        for _ in range(EPOCHS):
            for batch in self._batches():
                known_BO = ~targets_NO[batch].isnan()
                logits_BO = self._net(scaled(self._features(batch), self._mean_F, self._scale_F))
                each_BO = binary_cross_entropy_with_logits(logits_BO, targets_NO[batch].nan_to_num(), reduction="none")
                weight_BO = weights_NO[batch] * known_BO
                loss = (each_BO * weight_BO).sum() / weight_BO.sum()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(adapters, _LARGEST_GRADIENT)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                done, loss_sum = done + 1, loss_sum + loss.item()
                if done % _TOLD_EVERY == 0:
                    self._tell(f"step {done} of {steps}, loss {loss_sum / _TOLD_EVERY:.3f}")
                    loss_sum = 0.0
        return self._tensors()

    @torch.inference_mode()
    def _keep(self, read: Sequence[Prompted]) -> list[_Kept]:
        kept: dict[int, _Kept] = {}
        order = sorted(range(len(read)), key=lambda number: len(read[number].ids))
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            ids_BT = nn.utils.rnn.pad_sequence([torch.tensor(read[number].ids) for number in batch], batch_first=True)
            with torch.autocast("cpu", torch.bfloat16):
                taken = self._through(self._model.embed_tokens(ids_BT), 0, [layer for layer in MEANS if layer <= _FIRST], _FIRST)
            for row, number in enumerate(batch):
                begin, length = read[number].begin, len(read[number].ids)
                means = [taken[layer][row, begin:length].float().mean(dim=0) for layer in MEANS if layer <= _FIRST]
                kept[number] = _Kept(taken[_FIRST][row, :length].bfloat16().clone(), begin, torch.cat(means))
            if (first // BATCH + 1) % _TOLD_EVERY == 0:
                self._tell(f"{first + len(batch)} of {len(read)} replies read")
        return [kept[number] for number in range(len(read))]

    def _through(self, states_BTH: torch.Tensor, first: int, wanted: Sequence[int], last: int) -> dict[int, torch.Tensor]:
        """The states after the `wanted` layers, from those after layer `first`."""
        places = self._model.rotary_emb(states_BTH, torch.arange(states_BTH.shape[1])[None])
        taken = {}
        for number in range(first, last):
            states_BTH = self._model.layers[number](states_BTH, attention_mask=None, position_embeddings=places)
            if number + 1 in wanted:
                taken[number + 1] = states_BTH
        return taken

    def _features(self, batch: Sequence[int]) -> torch.Tensor:
        """(B, WIDTH + CIRCUMSTANCES), as Answer.features and circumstances() give them."""
        kept = [self._kept[number] for number in batch]
        states_BTH = nn.utils.rnn.pad_sequence([one.states_TH for one in kept], batch_first=True)
        upper = [layer for layer in MEANS if layer > _FIRST]
        with torch.autocast("cpu", torch.bfloat16), sdpa_kernel(SDPBackend.MATH):  # its own kernel for CPUs takes a fifth longer
            taken = self._through(states_BTH, _FIRST, upper, max(MEANS))
        means, ends = [torch.stack([one.means_L for one in kept])], []
        for layer in upper:
            own = [taken[layer][row, one.begin : len(one.states_TH)].float() for row, one in enumerate(kept)]
            means.append(torch.stack([states.mean(dim=0) for states in own]))
            if layer in ENDS:
                ends.append(torch.stack([states[-1] for states in own]))
        return torch.cat([*means, *ends, self._beside_NC[list(batch)]], dim=1)

    def _batches(self) -> list[list[int]]:
        """All replies once, in another order each time."""
        order = sorted(
            range(len(self._kept)), key=lambda number: (len(self._kept[number].states_TH) // _LIKE_LENGTH, self._random.random())
        )
        batches = [order[first : first + BATCH] for first in range(0, len(order), BATCH)]
        self._random.shuffle(batches)
        return batches

    def _tensors(self) -> dict[str, torch.Tensor]:
        found = {"mean": self._mean_F, "scale": self._scale_F}
        for name, layer in (("in", self._net[1]), ("out", self._net[4])):
            found |= {f"{name}.{kind}": weight for kind, weight in layer.named_parameters()}
        for name, module in self._model.named_modules():
            if hasattr(module, "lora_A"):
                scale = module.scaling["default"]
                found |= {name + DOWN: module.lora_A["default"].weight, name + UP: module.lora_B["default"].weight * scale}
        return found
