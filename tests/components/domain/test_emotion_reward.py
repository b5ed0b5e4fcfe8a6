"""The verifiable emotion reward."""

from __future__ import annotations

import pytest
from fakes import a_dialogue

from rlver.components.domain.emotion import emotion_reward
from rlver.components.domain.transcript import StopReason


@pytest.mark.parametrize(
    ("changes", "well_formed", "format_gate", "reward"),
    [
        ([10] * 6, True, True, 1.0),  # 100
        ([-10] * 4, True, True, 0.0),  # 0
        ([5, -3], True, True, 0.42),
        ([5, -3], False, False, 0.42),  # no gate
        ([10] * 6, False, True, 0.0),  # the gate: a broken format is worth nothing
    ],
)
def test_the_reward_is_the_final_emotion_over_a_hundred(changes: list[int], well_formed: bool, format_gate: bool, reward: float) -> None:
    assert emotion_reward(a_dialogue("d", changes), well_formed, format_gate) == pytest.approx(reward)


@pytest.mark.parametrize("well_formed", [True, False])
def test_a_failed_dialogue_is_unscorable_not_zero(well_formed: bool) -> None:
    failed = a_dialogue("d", [5]).model_copy(update={"emotion_final": None, "error": "x", "stop_reason": StopReason.FAILED})
    assert emotion_reward(failed, well_formed, format_gate=True) is None
