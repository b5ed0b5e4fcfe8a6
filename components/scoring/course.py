"""How soon dialogues succeed or fail, and what the score would be with another cap on the turns: the final emotion also measures speed.

Success and failure compete: a dialogue that failed can never succeed. The share that has succeeded by a turn is the Aalen-Johansen
estimate of its cumulative incidence. Every scorable dialogue is followed to its end or to the cap, none is lost on the way; without
such censoring the estimator *is* the plain share, so it has the interval of a share. A Kaplan-Meier curve, which counts failures as
lost, would say too much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlver.components.domain.emotion import FAILURE, SUCCESS
from rlver.components.domain.transcript import Dialogue, StopReason
from rlver.components.scoring.behaviour import by_persona, mean, share, thought_about, unknown
from rlver.components.scoring.statistics import Interval
from rlver.components.scoring.units import Sampling, Values

CAPS = (6, 8, 10)  # turns
_EMOTIONS = Interval(0.0, 100.0)
_NONE = "no dialogue can be scored"
_ENDS: dict[str, Callable[[int], bool]] = {"succeeded": lambda emotion: emotion >= SUCCESS, "failed": lambda emotion: emotion < FAILURE}


def course(dialogues: Sequence[Dialogue], how: Sampling) -> dict[str, Any]:
    """JSON-ready, every number as {value, ci95, n}: `succeeded_by_turn` and `failed_by_turn` (shares of all dialogues, a row a turn),
    `emotion_by_cap` (mean final emotion had the dialogues ended at so many turns; null beyond their own limit), `emotion_gated` (0 for a dialogue with a malformed
    reply, as the paper's reward has it; null where most replies have no thought). Failed dialogues are left out.
    """
    scorable = [dialogue for dialogue in dialogues if dialogue.emotion_final is not None]
    cut = min((len(one.turns) for one in scorable if one.stop_reason is StopReason.TURN_LIMIT), default=max(CAPS))
    turns = range(1, max((len(dialogue.turns) for dialogue in scorable), default=0) + 1)
    return {
        **{
            f"{name}_by_turn": {str(turn): share(_ended_by(scorable, ended, turn), _NONE, how.units) for turn in turns}
            for name, ended in _ENDS.items()
        },
        "emotion_by_cap": {
            str(cap): unknown(f"dialogues were cut at {cut} turns")
            if cut < cap
            else mean(_emotions_at(scorable, cap), _EMOTIONS, how, _NONE)
            for cap in CAPS
        },
        "emotion_gated": mean(_gated(scorable), _EMOTIONS, how, _NONE)
        if _thinks(scorable)
        else unknown("most replies were not thought about"),
    }


def _thinks(dialogues: Sequence[Dialogue]) -> bool:
    """Whether most replies have a thought; the text of a malformed one is kept as a thought too."""
    has_thought = [bool(turn.think) for dialogue in dialogues for turn in dialogue.turns]
    return 2 * sum(has_thought) > len(has_thought)


def _ended_by(dialogues: Sequence[Dialogue], ended: Callable[[int], bool], turn: int) -> Values:
    return by_persona(dialogues, lambda one: [float(one.emotion_final is not None and ended(one.emotion_final) and len(one.turns) <= turn)])


def _emotions_at(dialogues: Sequence[Dialogue], cap: int) -> Values:
    """The emotion after `cap` turns, or at the end of a shorter dialogue; dialogues whose turns have no emotion are left out."""

    def reached(dialogue: Dialogue) -> list[float]:
        emotion = dialogue.emotion_final if len(dialogue.turns) <= cap else dialogue.turns[cap - 1].emotion  # after the turn's appraisal
        return [] if emotion is None else [float(emotion)]

    return by_persona(dialogues, reached)


def _gated(dialogues: Sequence[Dialogue]) -> Values:
    return by_persona(dialogues, lambda dialogue: [float(dialogue.emotion_final or 0) if all(map(thought_about, dialogue.turns)) else 0.0])
