"""How far a fit has come, kept in the folder OUT.partial: stopped at any moment, it goes on from there.

Tensors are kept as safetensors, each file written at once. What another fit has left there is thrown away.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save

from rlver.components.domain.files import BadFile, read_json, write_bytes_atomically, write_json
from rlver.components.domain.unfinished import MADE_WITH


class Halfway:
    """Tensors by name of file. `made_with` stands for everything that decides the result of the fit."""

    def __init__(self, out: Path, made_with: Mapping[str, str | int]) -> None:
        self.folder = out.with_name(f"{out.name}.partial")
        if self._head() != made_with:
            self.discard()
            self.folder.mkdir(parents=True)
            write_json(self.folder / MADE_WITH, made_with)

    def load(self, name: str) -> dict[str, torch.Tensor] | None:
        """What was saved under that name; None if nothing was."""
        path = self._path(name)
        return load_file(path) if path.is_file() else None

    def save(self, name: str, tensors: Mapping[str, torch.Tensor]) -> None:
        write_bytes_atomically(self._path(name), save({key: tensor.detach().contiguous() for key, tensor in tensors.items()}))

    def discard(self) -> None:
        """The result is written elsewhere now, or another fit begins."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def _head(self) -> object:
        try:
            return read_json(self.folder / MADE_WITH)
        except BadFile:
            return None
