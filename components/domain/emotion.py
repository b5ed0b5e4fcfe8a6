"""Emotion arithmetic, tiers, stops and the reward: the only place where they are defined, for training and evaluation alike.

Every reply is appraised, the last one too (the reference implementation leaves its tenth reply unscored).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, islice
from operator import add

from rlver.components.domain.transcript import Dialogue, StopReason

LOWEST, HIGHEST = 0, 100
SUCCESS = 100  # a final emotion at or above: success (SAGE paper, section 3), wherever a run lets dialogues stop
FAILURE = 10  # below: failure
LARGEST_CHANGE = 10
_TIERS = ((100, "S"), (70, "A"), (40, "B"), (10, "C"))


def added(points: Iterable[float]) -> float:
    """Their sum, one after the other, as `sum` adds before Python 3.12: a half that is rounded must be the same half everywhere."""
    return reduce(add, points, 0.0)


@dataclass(frozen=True)
class EmotionRules:
    """When a dialogue starts, ends well, ends badly and ends anyway; all in points of 0..100 and user turns."""

    start: int = 40
    ceiling: int = 100
    floor: int = 10
    max_turns: int = 10


def apply_change(emotion: int, change: int) -> int:
    """The emotion after a change, both clamped: change to -10..10, emotion to 0..100 (SAGE paper, section 2)."""
    clamped = max(-LARGEST_CHANGE, min(LARGEST_CHANGE, change))
    return max(LOWEST, min(HIGHEST, emotion + clamped))


def emotions(start: int, changes: Iterable[int]) -> Iterator[int]:
    """The emotion after each of the changes."""
    return islice(accumulate(changes, apply_change, initial=start), 1, None)


def tier(emotion: int) -> str:
    """S at 100, A from 70, B from 40, C from 10, F below."""
    return next((name for threshold, name in _TIERS if emotion >= threshold), "F")


def stop_reason(emotion: int, turns_done: int, wants_to_end: bool, rules: EmotionRules) -> StopReason | None:
    """Why the dialogue ends now, after `turns_done` appraised turns; None if it goes on."""
    if emotion >= rules.ceiling:
        return StopReason.EMOTION_CEILING
    if emotion < rules.floor:
        return StopReason.EMOTION_FLOOR
    if wants_to_end:
        return StopReason.GOODBYE
    if turns_done >= rules.max_turns:
        return StopReason.TURN_LIMIT
    return None


def emotion_reward(dialogue: Dialogue, well_formed: bool, format_gate: bool) -> float | None:
    """Reward in 0..1. None for a failed dialogue: unscorable is not zero.

    With `format_gate`, a dialogue in which any policy turn broke the format is worth 0, as the RLVER paper says (section 2.3).
    """
    if dialogue.emotion_final is None:
        return None
    if format_gate and not well_formed:
        return 0.0
    return dialogue.emotion_final / 100


class ImpossibleDialogue(ValueError):
    """A dialogue whose numbers contradict each other; the message names the dialogue, the turn and both numbers."""


def check_arithmetic(dialogue: Dialogue) -> None:
    """Raise ImpossibleDialogue unless the emotions follow from start and changes, and the ending is one that can be."""
    emotion = dialogue.emotion_start
    for number, turn in enumerate(dialogue.turns, start=1):
        if turn.appraisal is None or turn.emotion is None:
            if dialogue.stop_reason is StopReason.FAILED and number == len(dialogue.turns):
                break
            raise _impossible(dialogue, f"turn {number} has no appraisal; only the last turn of a failed dialogue may lack it")
        expected = apply_change(emotion, turn.appraisal.change)
        if turn.emotion != expected:
            raise _impossible(
                dialogue, f"turn {number}: emotion {emotion} with change {turn.appraisal.change:+d} gives {expected}, got {turn.emotion}"
            )
        emotion = turn.emotion
    _check_ending(dialogue, emotion)


def _check_ending(dialogue: Dialogue, emotion: int) -> None:
    if dialogue.stop_reason is StopReason.FAILED:
        if dialogue.error is None:
            raise _impossible(dialogue, "it failed without saying why (error is null)")
        if dialogue.emotion_final is not None:
            raise _impossible(dialogue, f"it failed, so it has no final emotion, got {dialogue.emotion_final}")
        return
    if dialogue.error is not None:
        raise _impossible(dialogue, f"it stopped by {dialogue.stop_reason}, yet names an error: {dialogue.error}")
    if not dialogue.turns:
        raise _impossible(dialogue, f"it stopped by {dialogue.stop_reason} without a turn")
    if dialogue.emotion_final != emotion:
        raise _impossible(dialogue, f"the last emotion is {emotion}, but emotion_final is {dialogue.emotion_final}")


def check_stops(dialogue: Dialogue, rules: EmotionRules) -> None:
    """Raise ImpossibleDialogue unless the dialogue began and stopped as these rules demand; for transcripts made under them."""
    if dialogue.emotion_start != rules.start:
        raise _impossible(dialogue, f"it starts at emotion {dialogue.emotion_start}, the parameters say {rules.start}")
    if len(dialogue.turns) > rules.max_turns:
        raise _impossible(dialogue, f"it has {len(dialogue.turns)} turns, the limit is {rules.max_turns}")
    for number, turn in enumerate(dialogue.turns, start=1):
        if turn.emotion is None:
            continue
        is_last = number == len(dialogue.turns)
        due = stop_reason(turn.emotion, number, is_last and dialogue.stop_reason is StopReason.GOODBYE, rules)
        if not is_last and due is not None:
            raise _impossible(dialogue, f"it should have stopped by {due} after turn {number} at emotion {turn.emotion}, but went on")
        if is_last and dialogue.stop_reason is StopReason.CONTEXT_FULL:
            due = due or StopReason.CONTEXT_FULL  # nothing else was due
        if is_last and dialogue.stop_reason is not StopReason.FAILED and due is not dialogue.stop_reason:
            raise _impossible(dialogue, f"it stopped by {dialogue.stop_reason} at emotion {turn.emotion} after turn {number}, due: {due}")


def _impossible(dialogue: Dialogue, what: str) -> ImpossibleDialogue:
    return ImpossibleDialogue(f"dialogue {dialogue.dialogue_id}: {what}")
