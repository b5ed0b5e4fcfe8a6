"""A small sentence encoder (MiniLM-L6, 22 M parameters, Apache-2.0) that turns a text, or a message and the reply to it, into numbers, the same on every call.

It is read as it comes, or with small changes of its weights (LoRA, Hu et al. 2021) that were fitted to labelled replies. Texts are read one at a time and unpadded: what stands beside a text in a batch, or how many, cannot change a bit of its numbers. The weights come
from a pinned package (components/domain/packages.py) and are checked by hash when they are fetched.

Source of the architecture: BERT (Devlin et al. 2019); of the weights: sentence-transformers/all-MiniLM-L6-v2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

LAYERS, HEADS, HIDDEN = 6, 12, 384
READ_TOKENS = 256  # of a text; what comes after is not read
TAKEN = (2, 4, 5, 6)  # layers whose mean over the tokens is taken: the lower ones hear words and tone, the upper ones meaning
WIDTH = HIDDEN * len(TAKEN)
READ_MESSAGE, READ_REPLY = 80, 170  # tokens of a message (its end) and of the reply to it
PAIR_TAKEN = (3, 6)
PAIR_WIDTH = HIDDEN * (len(PAIR_TAKEN) + 2)
_EPSILON = 1e-12
_KEPT = 1 << 13


@dataclass(frozen=True)
class Encoded:
    """A text as the encoder has read it. `sums_PW` are the sums over the tokens of each part, `tokens` how many those are."""

    sums_PW: torch.Tensor
    tokens: tuple[int, ...]

    @property
    def mean_W(self) -> torch.Tensor:
        return self.sums_PW.sum(dim=0) / sum(self.tokens)

    def without(self, part: int) -> torch.Tensor:
        """(W,) the mean over all tokens but those of `part`; of the only part, zeros."""
        left = sum(self.tokens) - self.tokens[part]
        return (self.sums_PW.sum(dim=0) - self.sums_PW[part]) / max(1, left)

    @property
    def meaning(self) -> torch.Tensor:
        """(HIDDEN,) of length 1: two texts on the same matter have nearly the same."""
        return torch.nn.functional.normalize(self.mean_W[-HIDDEN:], dim=0)


@dataclass(frozen=True)
class Answer:
    """A reply as it was read after the message it answers: of each part the sums over its tokens, how many those are, and the largest of each number."""

    sums_PW: torch.Tensor
    tokens: tuple[int, ...]
    tops_PH: torch.Tensor
    first_H: torch.Tensor

    def features(self, without: int | None = None) -> torch.Tensor:
        """(PAIR_WIDTH,), of all parts or of all but one."""
        kept = [part for part in range(len(self.tokens)) if part != without and self.tokens[part]]
        if not kept:
            return torch.cat([torch.zeros(PAIR_WIDTH - HIDDEN), self.first_H])
        mean_W = self.sums_PW[kept].sum(dim=0) / sum(self.tokens[part] for part in kept)
        return torch.cat([mean_W, self.tops_PH[kept].amax(dim=0), self.first_H])


class Encoder:
    """Calling it reads a text, given the places where its parts begin (the first is 0). Not for several threads at once."""

    def __init__(self, folder: Path, changes: Mapping[str, torch.Tensor] | None = None) -> None:
        """`folder` holds model.safetensors and tokenizer.json; `changes` the two factors of each changed matrix (see fit.py)."""
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        weights = load_file(folder / "model.safetensors")
        self._embedding = weights["embeddings.word_embeddings.weight"]
        self._place = weights["embeddings.position_embeddings.weight"]
        self._kind = weights["embeddings.token_type_embeddings.weight"]
        self._first_norm = (weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"])
        self._layers = [_Layer(weights, f"encoder.layer.{number}.", changes, f"layers.{number}.") for number in range(LAYERS)]
        self._begin, self._end = number_of(self._tokenizer, "[CLS]"), number_of(self._tokenizer, "[SEP]")
        self._read_once = lru_cache(maxsize=_KEPT)(self._read)

    def __call__(self, text: str, begins: Sequence[int] = (0,)) -> Encoded:
        return self._read_once(text, tuple(begins))

    @torch.inference_mode()
    def _read(self, text: str, begins: tuple[int, ...]) -> Encoded:
        ids, starts = self._tokens(text)
        ids, part_T = [self._begin, *ids[: READ_TOKENS - 2], self._end], parts_of([0, *starts[: READ_TOKENS - 2], 0], begins)
        layers = self._layers_of(torch.tensor(ids), torch.zeros(len(ids), dtype=torch.long), TAKEN)
        sums_PW = torch.zeros(len(begins), WIDTH).index_add_(0, part_T, torch.cat(layers, dim=1))
        return Encoded(sums_PW, tuple(torch.bincount(part_T, minlength=len(begins)).tolist()))

    @torch.inference_mode()
    def answer(self, message: str, reply: str, begins: Sequence[int] = (0,)) -> Answer:
        """`reply` after `message`; `begins` are the places where the parts of the reply begin."""
        first = [self._begin, *self._tokens(message)[0][-READ_MESSAGE:], self._end]
        second, starts = self._tokens(reply)
        second, part_T = [*second[:READ_REPLY], self._end], parts_of([*starts[:READ_REPLY], len(reply)], begins)
        kinds = torch.tensor([0] * len(first) + [1] * len(second))
        layers = self._layers_of(torch.tensor(first + second), kinds, PAIR_TAKEN)
        own_TW = torch.cat([layer[len(first) :] for layer in layers], dim=1)
        sums_PW = torch.zeros(len(begins), own_TW.shape[1]).index_add_(0, part_T, own_TW)
        tops_PH = torch.stack([top_of(layers[-1][len(first) :][part_T == part]) for part in range(len(begins))])
        return Answer(sums_PW, tuple(torch.bincount(part_T, minlength=len(begins)).tolist()), tops_PH, layers[-1][0])

    def _tokens(self, text: str) -> tuple[list[int], list[int]]:
        """Numbers of the tokens, and where in the text each begins."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return encoding.ids, [start for start, _ in encoding.offsets]

    def _layers_of(self, ids_T: torch.Tensor, kinds_T: torch.Tensor, taken: Sequence[int]) -> list[torch.Tensor]:
        """(T, HIDDEN) each: the layers `taken`."""
        embedded_TH = self._embedding[ids_T] + self._place[: len(ids_T)] + self._kind[kinds_T]
        hidden_TH = layer_norm(embedded_TH, (HIDDEN,), *self._first_norm, eps=_EPSILON)
        found = []
        for number, layer in enumerate(self._layers, start=1):
            hidden_TH = layer(hidden_TH)
            if number in taken:
                found.append(hidden_TH)
        return found


def number_of(tokenizer: Tokenizer, mark: str) -> int:
    """The token of a mark. Raises ValueError where the vocabulary has none."""
    number: int | None = tokenizer.token_to_id(mark)
    if number is None:
        raise ValueError(f"the encoder's vocabulary has no {mark}")
    return number


def parts_of(starts: Sequence[int], begins: Sequence[int]) -> torch.Tensor:
    """(T,) the part in which each token begins."""
    return torch.tensor([max(0, sum(first <= start for first in begins) - 1) for start in starts])


def top_of(hidden_TH: torch.Tensor) -> torch.Tensor:
    """(HIDDEN,) the largest of each number; of no token, zeros."""
    return hidden_TH.amax(dim=0) if len(hidden_TH) else torch.zeros(hidden_TH.shape[1])


class _Layer:
    def __init__(self, weights: Mapping[str, torch.Tensor], prefix: str, changes: Mapping[str, torch.Tensor] | None, changed: str) -> None:
        def of(name: str) -> tuple[torch.Tensor, torch.Tensor]:
            return weights[f"{prefix}{name}.weight"], weights[f"{prefix}{name}.bias"]

        def with_change(linear: tuple[torch.Tensor, torch.Tensor], name: str) -> tuple[torch.Tensor, torch.Tensor]:
            if changes is None:
                return linear
            return linear[0] + changes[f"{changed}{name}.up"] @ changes[f"{changed}{name}.down"], linear[1]

        parts = [of(f"attention.self.{one}") for one in ("query", "key", "value")]
        self._attend = with_change((torch.cat([weight for weight, _ in parts]), torch.cat([bias for _, bias in parts])), "attend")
        self._attended, self._attended_norm = with_change(of("attention.output.dense"), "attended"), of("attention.output.LayerNorm")
        self._wide, self._narrow = with_change(of("intermediate.dense"), "wide"), with_change(of("output.dense"), "narrow")
        self._norm = of("output.LayerNorm")

    def __call__(self, hidden_TH: torch.Tensor) -> torch.Tensor:
        tokens = len(hidden_TH)
        query, key, value = linear(hidden_TH, *self._attend).view(tokens, 3, HEADS, HIDDEN // HEADS).permute(1, 2, 0, 3)
        mixed = scaled_dot_product_attention(query, key, value, scale=1 / math.sqrt(HIDDEN // HEADS))
        attended = linear(mixed.transpose(0, 1).reshape(tokens, HIDDEN), *self._attended)
        hidden_TH = layer_norm(hidden_TH + attended, (HIDDEN,), *self._attended_norm, eps=_EPSILON)
        inner = linear(gelu(linear(hidden_TH, *self._wide)), *self._narrow)
        return layer_norm(hidden_TH + inner, (HIDDEN,), *self._norm, eps=_EPSILON)
