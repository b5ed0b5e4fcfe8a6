"""What a text is about, in numbers: a small sentence encoder (MiniLM-L6, 22 M parameters, Apache-2.0) by which two replies that say the same are known.

The weights come from a pinned package (components/domain/packages.py) and are checked by hash when they are fetched and when they are loaded. Source of the weights:
sentence-transformers/all-MiniLM-L6-v2; its mean over the tokens is taken, of length 1, as its authors do.
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoModel
from transformers.utils import logging

from rlver.components.domain.packages import MINILM, fetched, unchanged

logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # as in policy/load.py

HIDDEN = 384
READ_TOKENS = 256  # of a text; what comes after is not read
_LONGEST_TOKEN = 64  # characters; no more of a text is looked at than so many tokens could have


class Meaning:
    """Calling it reads a text: (HIDDEN,) of length 1. One text at a time and unpadded, so that nothing beside it can change a bit."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(READ_TOKENS)
        self._model: Any = (
            AutoModel.from_pretrained(folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False).eval().to(device)
        )
        self._read_once = lru_cache(maxsize=1 << 13)(self._read)

    def __call__(self, text: str) -> torch.Tensor:
        return self._read_once(text)

    @torch.inference_mode()
    def _read(self, text: str) -> torch.Tensor:
        ids = self._tokenizer.encode(text[: READ_TOKENS * _LONGEST_TOKEN]).ids
        return torch.nn.functional.normalize(
            self._model(torch.tensor([ids], device=self._model.device)).last_hidden_state[0].mean(dim=0), dim=0
        ).cpu()


@cache
def meaning(device: str = "cpu") -> Meaning:
    """The one of this process on `device`, fetched if need be. Raises NotFetched."""
    return Meaning(unchanged(fetched(MINILM), MINILM.inside), device)
