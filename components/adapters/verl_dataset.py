"""Our persona files as a dataset of verl (`data.custom_cls`): a row for each persona, for the agent loop of `verl.py`.

verl reads them itself, so nothing is converted. The whole persona stands in its row; the model sees nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from rlver.components.personas.schema import validate_file

NAME = "rlver"  # of the agent loop, and of the data source


class SupportDataset(Dataset[dict[str, Any]]):
    """`data_files` are persona files, `config` is verl's section `data`: its `seed` decides each user, the same in every epoch. Those of its
    `val_files` talk with the agent loop `watched_agent`, where it names one.

    Raises InvalidPersonas and BadFile.
    """

    def __init__(self, data_files: str | Sequence[str], tokenizer: Any, config: Any, processor: Any = None, max_samples: int = -1) -> None:
        files = [data_files] if isinstance(data_files, str) else data_files
        people = [one for file in files for one in validate_file(Path(file))]
        self._people, self._seed = people if max_samples < 0 else people[:max_samples], config.get("seed") or 0
        watched = config.get("val_files") or []
        are_watched = list(map(str, files)) == list(map(str, [watched] if isinstance(watched, str) else watched))
        self._agent = (config.get("watched_agent") if are_watched else None) or NAME

    def __len__(self) -> int:
        return len(self._people)

    def __getitem__(self, place: int) -> dict[str, Any]:
        one = self._people[place]
        return {
            "agent_name": self._agent,
            "data_source": NAME,
            "index": place,
            "raw_prompt": [{"role": "user", "content": one.topic}],  # for verl's logs alone
            "extra_info": {"index": place, "persona": one.model_dump_json(), "seed": self._seed},
            "reward_model": {"style": NAME, "ground_truth": ""},
            "dummy_tensor": torch.zeros(1, dtype=torch.uint8),  # verl wants a tensor in every row
        }
