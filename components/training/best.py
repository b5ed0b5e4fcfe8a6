"""The weights of the best check so far (train.keep: best), on disk, so that a training ends with them and not with whatever its last step left.

Which check was best is decided on personas that are held out from the updates; test personas take no part. The best of several noisy means is too
high a mean: it chooses the weights, and says nothing about how good they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save

from rlver.components.domain.files import write_bytes_atomically


@dataclass
class BestWeights:
    """Of `model` those weights that train, a file in `folder` for each check that was the best so far; nothing where not `wanted`.

    A run that was killed goes on from a folder `checkpoint-STEP` in `checkpoints`: for each of them the best check up to its step is kept,
    and the best of all. The other files are deleted.
    """

    folder: Path
    model: Any
    wanted: bool
    checkpoints: Path
    _emotions: dict[int, float] = field(default_factory=dict)  # by step, of the checks with a file

    def saw(self, step: int, emotion: float) -> None:
        """Keep the present weights if the mean emotion of this check is above all before. NaN (nothing could be scored) never is."""
        if not self.wanted or math.isnan(emotion) or emotion <= max(self._emotions.values(), default=-math.inf):
            return
        weights = {name: weight.detach().contiguous() for name, weight in self.model.named_parameters() if weight.requires_grad}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_bytes_atomically(self._file(step), save(weights))
        self._emotions[step] = emotion
        kept = {self._best_until(done) for done in (step, *self._steps_to_go_on_from())}
        for old in self._emotions.keys() - kept:
            del self._emotions[old]
            self._file(old).unlink(missing_ok=True)

    def resume(self, checks: Iterable[Mapping[str, float | None]]) -> None:
        """Go on with the files of these rows of the curve of checks."""
        emotions = {int(row["step"] or 0): row["emotion_mean"] for row in checks}
        self._emotions = {step: emotion for step, emotion in emotions.items() if emotion is not None and self._file(step).is_file()}

    @torch.no_grad()
    def put_back(self) -> int | None:
        """Give the model the best weights and return their step; None where no check could be scored."""
        step = self._best_until(math.inf)
        if step is None:
            return None
        own = dict(self.model.named_parameters())
        for name, weight in load_file(self._file(step)).items():
            own[name].copy_(weight)
        return step

    def _best_until(self, last: float) -> int | None:
        """The step of the best check up to the step `last`; None where none was scored."""
        return max((step for step in self._emotions if step <= last), key=lambda step: self._emotions[step], default=None)

    def _steps_to_go_on_from(self) -> list[int]:
        return [int(path.name.rpartition("-")[2]) for path in self.checkpoints.glob("checkpoint-*")]

    def _file(self, step: int) -> Path:
        return self.folder / f"step-{step}.safetensors"
