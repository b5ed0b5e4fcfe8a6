"""A small frozen sentence encoder (MiniLM-L6, 22 M parameters, Apache-2.0) that turns a text into numbers, the same on every call.

Texts are read one at a time and unpadded: what stands beside a text in a batch, or how many, cannot change a bit of its numbers. The weights come
from a pinned package (components/domain/packages.py) and are checked by hash when they are fetched.

Source of the architecture: BERT (Devlin et al. 2019); of the weights: sentence-transformers/all-MiniLM-L6-v2.
"""

from __future__ import annotations

import math
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


class Encoder:
    """`__call__` gives the features (WIDTH,) of a text, in float32. Not for several threads at once."""

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
        self._kept = lru_cache(maxsize=1 << 14)(self._read)

    def __call__(self, text: str) -> torch.Tensor:
        return self._kept(text)

    @torch.inference_mode()
    def _read(self, text: str) -> torch.Tensor:
        ids = torch.tensor(self._tokenizer.encode(text).ids)
        hidden = layer_norm(self._embedding[ids] + self._place[: len(ids)], (HIDDEN,), *self._first_norm, eps=_EPSILON)
        means = []
        for number, layer in enumerate(self._layers, start=1):
            hidden = layer(hidden)
            if number in TAKEN:
                means.append(hidden.mean(dim=0))
        return torch.cat(means)


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
