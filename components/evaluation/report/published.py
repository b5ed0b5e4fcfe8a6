"""The published rows: RLVER paper, Table 1, Sentient-Benchmark. Another model and another user, so the shape compares, the level does not."""

from __future__ import annotations

from typing import NamedTuple

SOURCE = "published, Qwen2.5-7B, DeepSeek-V3 user; no CI was published"


class PublishedRow(NamedTuple):
    """Mean final emotion in 0..100; rates in 0..1."""

    name: str
    emotion_mean: float
    success_rate: float
    failure_rate: float


ROWS = (
    PublishedRow("Qwen2.5-7B-Instruct (base)", 13.3, 0.02, 0.76),
    PublishedRow("PPO, direct", 61.7, 0.24, 0.23),
    PublishedRow("PPO, think", 79.2, 0.42, 0.09),
    PublishedRow("GRPO, direct", 68.3, 0.26, 0.10),
    PublishedRow("GRPO, think", 72.0, 0.34, 0.10),
)
