"""The sentences of the small world as documents of lm-eval. Imports nothing of the project, so plain `lm_eval` can use it anywhere.

The documents are the shipped files beside the tiny policy, found from this file and not from the current directory.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from datasets import Dataset

_TINY = Path(__file__).resolve().parents[2] / "policy" / "tiny"


def likelihood_rows(**_: Any) -> dict[str, Dataset]:
    return _test_split(_TINY / "likelihood.jsonl")


def choice_rows(**_: Any) -> dict[str, Dataset]:
    return _test_split(_TINY / "choice.jsonl")


def choices(row: dict[str, Any]) -> list[str]:
    """The true sentence and its three false neighbours, each a text of its own."""
    return [f"{row['stem']} {option}" for option in row["options"]]


def bits_per_byte(row: dict[str, Any], results: list[float]) -> dict[str, float]:
    return {"bits_per_byte": -results[0] / (math.log(2) * len(row["text"].encode()))}


def _test_split(path: Path) -> dict[str, Dataset]:
    return {"test": Dataset.from_list([json.loads(line) for line in path.read_text("utf-8").splitlines()])}
