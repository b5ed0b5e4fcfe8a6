"""The verifiable emotion reward: the user's final emotion divided by 100 (RLVER paper, sections 2.1 and 3.1)."""

from __future__ import annotations

from components.dialogue.transcript import Dialogue


def emotion_reward(dialogue: Dialogue, well_formed: bool, format_gate: bool) -> float | None:
    """Reward in 0..1. None for a failed dialogue: unscorable is not zero.

    With `format_gate`, a dialogue in which any policy turn broke the format is worth 0, as the RLVER paper says (section 2.3).
    """
    if dialogue.emotion_final is None:
        return None
    if format_gate and not well_formed:
        return 0.0
    return dialogue.emotion_final / 100
