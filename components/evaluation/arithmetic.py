"""The arithmetic of a transcript: every emotion must follow from the one before and the change of its appraisal.

This needs no simulator, so it holds for foreign transcripts too; re-deriving the *changes* is verification, another matter.
"""

from __future__ import annotations

from components.dialogue.transcript import Dialogue, StopReason
from components.simulator.emotion import EmotionRules, apply_change, stop_reason


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
        if dialogue.failure is None:
            raise _impossible(dialogue, "it failed without saying why (failure is null)")
        if dialogue.emotion_final is not None:
            raise _impossible(dialogue, f"it failed, so it has no final emotion, got {dialogue.emotion_final}")
        return
    if dialogue.failure is not None:
        raise _impossible(dialogue, f"it stopped by {dialogue.stop_reason}, yet names a failure: {dialogue.failure}")
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
        if is_last and dialogue.stop_reason is not StopReason.FAILED and due is not dialogue.stop_reason:
            raise _impossible(dialogue, f"it stopped by {dialogue.stop_reason} at emotion {turn.emotion} after turn {number}, due: {due}")


def _impossible(dialogue: Dialogue, what: str) -> ImpossibleDialogue:
    return ImpossibleDialogue(f"dialogue {dialogue.dialogue_id}: {what}")
