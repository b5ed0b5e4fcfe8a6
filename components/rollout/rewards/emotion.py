"""The verifiable emotion reward: the user's final emotion, as a share of 100."""

from __future__ import annotations

from typing import Any

from rlver.components.domain.emotion import emotion_reward
from rlver.components.domain.kinds import RewardKind
from rlver.components.domain.transcript import Dialogue


def _score(dialogue: Dialogue, parameters: Any) -> float | None:
    return emotion_reward(dialogue, well_formed=True, format_gate=False)


REWARD = RewardKind(_score)
