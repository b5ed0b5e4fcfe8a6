"""What a batch of rollouts is summed up to, in training logs and held-out checks alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from components.dialogue.episode import Rollout
from components.dialogue.transcript import Dialogue


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def right_acts(dialogue: Dialogue) -> list[bool]:
    """For every turn after the first cue: did the reply serve the hidden need? Empty where nobody says so."""
    cued, right = False, []
    for turn in dialogue.turns if dialogue.simulator.names_acts else ():
        cued = cued or bool(turn.cue)
        if cued and turn.appraisal is not None:
            right.append(any(evidence.what == "serves_need" for evidence in turn.appraisal.evidence))
    return right


def measure(rollouts: Sequence[Rollout], ceiling: int, floor: int) -> dict[str, float]:
    """Emotion, success, failure and behaviour over the scorable dialogues; shares in 0..1, NaN where nothing could be scored."""
    scored = [rollout for rollout in rollouts if rollout.dialogue.emotion_final is not None]
    finals = [float(rollout.dialogue.emotion_final or 0) for rollout in scored]
    turns = [turn for rollout in scored for turn in rollout.dialogue.turns]
    # an LLM user gives no evidence, so nobody counts repetitions
    explained = [
        turn.appraisal.evidence
        for rollout in scored
        if rollout.dialogue.simulator.names_acts
        for turn in rollout.dialogue.turns
        if turn.appraisal
    ]
    return {
        "n": float(len(scored)),
        "failed_dialogues": float(len(rollouts) - len(scored)),
        "emotion_mean": _mean(finals),
        "success_rate": _mean([final >= ceiling for final in finals]),
        "failure_rate": _mean([final < floor for final in finals]),
        "turns_mean": _mean([len(rollout.dialogue.turns) for rollout in scored]),
        "right_act_rate": _mean([right for rollout in scored for right in right_acts(rollout.dialogue)]),
        "repeat_rate": _mean([any(e.what == "repeats" for e in evidence) for evidence in explained]) if any(explained) else math.nan,
        "cut_off_rate": sum(rollout.cut_off for rollout in scored) / len(turns) if turns else math.nan,
        "malformed_rate": _mean([not rollout.well_formed for rollout in scored]),
        "reply_tokens": _mean([turn.reply_tokens or 0 for turn in turns]),
        "think_tokens": _mean([turn.think_tokens or 0 for turn in turns]),
    }
