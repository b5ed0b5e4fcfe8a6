"""Fitting the reader of answers: small changes of the encoder's weights (LoRA, Hu et al. 2021) and a net over them, on messages with their replies.

What is fitted here is read by components/users/heard/encoder.py: `Encoder.answer`, one pair at a time. Here pairs stand in batches, padded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import nn
from torch.nn.functional import dropout, gelu, layer_norm, linear, scaled_dot_product_attention

from rlver.components.users.heard.encoder import HEADS, HIDDEN, LAYERS, PAIR_TAKEN, PAIR_WIDTH, READ_MESSAGE, READ_REPLY, number_of
from rlver.components.users.heard.reading import CIRCUMSTANCES, OUTPUTS

RANK, INNER, PASSES, BATCH = 8, 256, 5, 32
LEARNING_RATE, NET_RATE, WEIGHT_DECAY = 1.2e-3, 1e-3, 0.05
DROP_CHANGE, DROP_FEATURES, DROP_INNER, HIDE_TOKENS = 0.1, 0.1, 0.3, 0.05
_EPSILON = 1e-12
_SPREAD = 12  # tokens by which the lengths of a batch may differ, so that batches are not the same in every pass


@dataclass(frozen=True)
class Pair:
    """Tokens of a message with its marks, and of the reply with its mark."""

    message: Sequence[int]
    reply: Sequence[int]

    def __len__(self) -> int:
        return len(self.message) + len(self.reply)


def pairs(tokenizer: Tokenizer, texts: Sequence[tuple[str, str]]) -> list[Pair]:
    """Of (message, reply)."""
    begin, end = number_of(tokenizer, "[CLS]"), number_of(tokenizer, "[SEP]")

    def tokens(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    return [Pair([begin, *tokens(user)[-READ_MESSAGE:], end], [*tokens(reply)[:READ_REPLY], end]) for user, reply in texts]


class _Changed(nn.Module):
    """A fixed matrix with a change of low rank."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, rank: int) -> None:
        super().__init__()
        self._fixed = weight, bias
        self.down = nn.Parameter(torch.randn(rank, weight.shape[1]) / math.sqrt(weight.shape[1]))
        self.up = nn.Parameter(torch.zeros(weight.shape[0], rank))

    def forward(self, inner: torch.Tensor) -> torch.Tensor:
        return linear(inner, *self._fixed) + linear(linear(dropout(inner, DROP_CHANGE, self.training), self.down), self.up)


class _ChangedLayer(nn.Module):
    def __init__(self, weights: Mapping[str, torch.Tensor], prefix: str) -> None:
        super().__init__()

        def of(name: str) -> tuple[torch.Tensor, torch.Tensor]:
            return weights[f"{prefix}{name}.weight"], weights[f"{prefix}{name}.bias"]

        three = [of(f"attention.self.{one}") for one in ("query", "key", "value")]
        self.attend = _Changed(torch.cat([weight for weight, _ in three]), torch.cat([bias for _, bias in three]), 2 * RANK)
        self.attended = _Changed(*of("attention.output.dense"), RANK)
        self.wide, self.narrow = _Changed(*of("intermediate.dense"), RANK), _Changed(*of("output.dense"), RANK)
        self._norms = of("attention.output.LayerNorm"), of("output.LayerNorm")

    def forward(self, hidden_BTH: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = hidden_BTH.shape
        query, key, value = self.attend(hidden_BTH).view(batch, tokens, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2).reshape(batch, tokens, HIDDEN)
        hidden_BTH = layer_norm(hidden_BTH + self.attended(mixed), (HIDDEN,), *self._norms[0], eps=_EPSILON)
        return layer_norm(hidden_BTH + self.narrow(gelu(self.wide(hidden_BTH))), (HIDDEN,), *self._norms[1], eps=_EPSILON)


class AnswerNet(nn.Module):
    """Reads batches of pairs; (B, OUTPUTS) before the sigmoid."""

    def __init__(self, weights: Mapping[str, torch.Tensor], hidden_token: int) -> None:
        super().__init__()
        self._weights, self._hidden_token = weights, hidden_token
        self.layers = nn.ModuleList(_ChangedLayer(weights, f"encoder.layer.{number}.") for number in range(LAYERS))
        self.net = nn.Sequential(
            nn.Dropout(DROP_FEATURES), nn.Linear(PAIR_WIDTH + CIRCUMSTANCES, INNER), nn.GELU(), nn.Dropout(DROP_INNER),
            nn.Linear(INNER, len(OUTPUTS)),
        )  # fmt: skip

    def forward(self, batch: Sequence[Pair], circumstances_BC: torch.Tensor) -> torch.Tensor:
        longest = max(map(len, batch))
        ids_BT, own_BT = (torch.zeros(len(batch), longest, dtype=torch.long) for _ in range(2))
        for row, pair in enumerate(batch):
            ids_BT[row, : len(pair)] = torch.tensor([*pair.message, *pair.reply])
            own_BT[row, len(pair.message) : len(pair)] = 1
        there_BT = torch.arange(longest) < torch.tensor([[len(pair)] for pair in batch])
        marks = {batch[0].message[0], batch[0].message[-1]}
        if self.training:
            hide = (torch.rand(ids_BT.shape) < HIDE_TOKENS) & ~torch.isin(ids_BT, torch.tensor(sorted(marks)))
            ids_BT = torch.where(hide, self._hidden_token, ids_BT)
        return self._outputs(ids_BT, own_BT, there_BT, circumstances_BC)

    def _outputs(self, ids_BT: torch.Tensor, own_BT: torch.Tensor, there_BT: torch.Tensor, circumstances_BC: torch.Tensor) -> torch.Tensor:
        """`own_BT` is 1 at the tokens of the reply, `there_BT` true where there are tokens at all."""
        given = {name: self._weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")}
        hidden_BTH = given["word"][ids_BT] + given["position"][: ids_BT.shape[1]] + given["token_type"][own_BT]
        norm = self._weights["embeddings.LayerNorm.weight"], self._weights["embeddings.LayerNorm.bias"]
        hidden_BTH = layer_norm(hidden_BTH, (HIDDEN,), *norm, eps=_EPSILON)
        taken = []
        for number, layer in enumerate(self.layers, start=1):
            hidden_BTH = layer(hidden_BTH, there_BT[:, None, None, :])
            if number in PAIR_TAKEN:
                taken.append(hidden_BTH)
        share_BT = own_BT / own_BT.sum(dim=1, keepdim=True)
        means = [torch.einsum("bt,bth->bh", share_BT, layer_BTH) for layer_BTH in taken]
        top_BH = taken[-1].masked_fill(own_BT[..., None] == 0, -1e4).amax(dim=1)
        outputs: torch.Tensor = self.net(torch.cat([*means, top_BH, taken[-1][:, 0], circumstances_BC], dim=1))
        return outputs

    def tensors(self) -> dict[str, torch.Tensor]:
        """As components/users/heard/reading.py wants them."""
        found = {name: value for name, value in self.state_dict().items() if name.startswith("layers.")}
        for here, there in ((1, "in"), (4, "out")):
            found |= {f"answer.{there}.{one}": self.state_dict()[f"net.{here}.{one}"] for one in ("weight", "bias")}
        return found


def adapted(
    net: AnswerNet, read: Sequence[Pair], circumstances_NC: torch.Tensor, targets_NO: torch.Tensor, on_pass: Callable[[int, float], None]
) -> None:
    """Fit `net` in place; `on_pass` gets the number of the pass and its mean loss."""
    changes = [value for name, value in net.named_parameters() if name.startswith("layers.")]
    groups = [
        {"params": changes, "lr": LEARNING_RATE, "weight_decay": WEIGHT_DECAY},
        {"params": net.net.parameters(), "lr": NET_RATE, "weight_decay": 1e-2},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98))
    steps = max(40, PASSES * -(-len(read) // BATCH))  # of fewer, the schedule cannot be made
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [LEARNING_RATE, NET_RATE], total_steps=steps, pct_start=0.1)
    lengths = torch.tensor([len(pair) for pair in read])
    for number in range(PASSES):
        losses: list[float] = []
        batches = torch.split(torch.argsort(lengths + torch.rand(len(lengths)) * _SPREAD), BATCH)
        for place in torch.randperm(len(batches)).tolist():
            rows = batches[place]
            found = net([read[row] for row in rows.tolist()], circumstances_NC[rows])
            loss = nn.functional.binary_cross_entropy_with_logits(found, targets_NO[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        on_pass(number, sum(losses) / len(losses))
