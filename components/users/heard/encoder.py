"""A small frozen sentence encoder (MiniLM-L6, 22 M parameters, Apache-2.0) that turns a text into numbers, the same on every call.

Texts are read one at a time and unpadded: what stands beside a text in a batch, or how many, cannot change a bit of its numbers. The weights come
from a pinned package (components/domain/packages.py) and are checked by hash when they are fetched.

Source of the architecture: BERT (Devlin et al. 2019); of the weights: sentence-transformers/all-MiniLM-L6-v2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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


class Encoder:
    """Calling it reads a text, given the places where its parts begin (the first is 0). Not for several threads at once."""

    def __init__(self, folder: Path) -> None:
        """`folder` holds model.safetensors and tokenizer.json."""
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(READ_TOKENS)
        weights = load_file(folder / "model.safetensors")
        self._embedding = weights["embeddings.word_embeddings.weight"]
        self._place = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        self._first_norm = (weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"])
        self._layers = [_Layer(weights, f"encoder.layer.{number}.") for number in range(LAYERS)]
        self._read_once = lru_cache(maxsize=_KEPT)(self._read)

    def __call__(self, text: str, begins: Sequence[int] = (0,)) -> Encoded:
        return self._read_once(text, tuple(begins))

    @torch.inference_mode()
    def _read(self, text: str, begins: tuple[int, ...]) -> Encoded:
        encoding = self._tokenizer.encode(text)
        ids = torch.tensor(encoding.ids)
        hidden_TH = layer_norm(self._embedding[ids] + self._place[: len(ids)], (HIDDEN,), *self._first_norm, eps=_EPSILON)
        taken = []
        for number, layer in enumerate(self._layers, start=1):
            hidden_TH = layer(hidden_TH)
            if number in TAKEN:
                taken.append(hidden_TH)
        part_T = torch.tensor([max(0, sum(first <= start for first in begins) - 1) for start, _ in encoding.offsets])
        sums_PW = torch.zeros(len(begins), WIDTH).index_add_(0, part_T, torch.cat(taken, dim=1))
        return Encoded(sums_PW, tuple(torch.bincount(part_T, minlength=len(begins)).tolist()))


class _Layer:
    def __init__(self, weights: dict[str, torch.Tensor], prefix: str) -> None:
        def of(name: str) -> tuple[torch.Tensor, torch.Tensor]:
            return weights[f"{prefix}{name}.weight"], weights[f"{prefix}{name}.bias"]

        parts = [of(f"attention.self.{one}") for one in ("query", "key", "value")]
        self._attend = (torch.cat([weight for weight, _ in parts]), torch.cat([bias for _, bias in parts]))
        self._attended, self._attended_norm = of("attention.output.dense"), of("attention.output.LayerNorm")
        self._wide, self._narrow, self._norm = of("intermediate.dense"), of("output.dense"), of("output.LayerNorm")

    def __call__(self, hidden_TH: torch.Tensor) -> torch.Tensor:
        tokens = len(hidden_TH)
        query, key, value = linear(hidden_TH, *self._attend).view(tokens, 3, HEADS, HIDDEN // HEADS).permute(1, 2, 0, 3)
        mixed = scaled_dot_product_attention(query, key, value, scale=1 / math.sqrt(HIDDEN // HEADS))
        attended = linear(mixed.transpose(0, 1).reshape(tokens, HIDDEN), *self._attended)
        hidden_TH = layer_norm(hidden_TH + attended, (HIDDEN,), *self._attended_norm, eps=_EPSILON)
        inner = linear(gelu(linear(hidden_TH, *self._wide)), *self._narrow)
        return layer_norm(hidden_TH + inner, (HIDDEN,), *self._norm, eps=_EPSILON)
