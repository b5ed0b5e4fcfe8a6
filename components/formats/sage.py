"""Recorded SAGE dialogues (one JSON object each, SAGE/RLVER's own format) as transcripts.

In a record the judgement of a reply stands on the *next* user message. A tenth reply was never judged by that simulator; such a
reply cannot become a turn (a turn is appraised), so it is left out, and what the user felt last stays the final emotion. Nothing is
lost: the transcript holds the whole record as its `original`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlver.components.domain.emotion import EmotionRules, apply_change, stop_reason
from rlver.components.domain.transcript import Appraisal, Dialogue, SimulatorTag, StopReason, Turn, writable
from rlver.components.personas.profiles import need_of

RULES = EmotionRules(start=40, ceiling=100, floor=10, max_turns=10)  # under which these dialogues were held
TAG = SimulatorTag(kind="sage", difficulty="vanilla", version="recorded")

_LABEL = re.compile(r"^[^\]\n]{1,20}\]\s*")  # the rest of a section label that the recording's parser left in front of the text


class UnreadableRecord(ValueError):
    """A record that is not a SAGE dialogue; the message says where and what was expected."""


def has_unjudged_reply(record: Mapping[str, Any]) -> bool:
    """Whether the record ends with a reply that nobody judged."""
    return len(record["history"]) % 2 == 0


def dialogue_of(record: Mapping[str, Any], policy: str) -> Dialogue:
    """The transcript of one record. Raises UnreadableRecord, also when its emotions do not follow from its changes."""
    try:
        writable(record)
    except ValueError as error:
        raise UnreadableRecord(str(error)) from error
    identity = _read(record, "id", str)
    history = _history(record)
    users, replies = history[0::2], history[1::2]
    emotion = start = _read(users[0], "emotion-point", int)
    turns: list[Turn] = []
    for user, reply, after in zip(users, replies, users[1:], strict=False):
        where = f"user message {len(turns) + 2}"
        appraisal = _appraisal(_read(after, "planning", dict, where), where)
        expected, emotion = apply_change(emotion, appraisal.change), _read(after, "emotion-point", int, where)
        if emotion != expected:
            raise UnreadableRecord(f"{where}: the change {appraisal.change:+d} gives emotion {expected}, got {emotion}")
        said = _read(reply, "content", str)
        think = reply.get("think")
        turns.append(
            Turn(
                user=_read(user, "content", str),
                assistant=said,
                think=think if isinstance(think, str) and think.strip() and think != said else None,
                emotion=emotion,
                appraisal=appraisal,
            )
        )
    if not turns:
        raise UnreadableRecord("history: no reply was ever judged")
    if _read(record, "emo_point", int) != emotion:
        raise UnreadableRecord(f"emo_point: the last emotion is {emotion}, got {record['emo_point']}")
    return Dialogue(
        dialogue_id=f"{policy}/{identity}",
        persona_id=identity,
        hidden_need=need_of(_read(record, "task", str)).value,
        policy=policy,
        seed=0,
        simulator=TAG,
        emotion_start=start,
        emotion_final=emotion,
        stop_reason=stop_reason(emotion, RULES.max_turns if has_unjudged_reply(record) else 0, False, RULES) or StopReason.GOODBYE,
        turns=tuple(turns),
        original=dict(record),
    )


def _history(record: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    history: list[dict[str, Any]] = _read(record, "history", list)
    for number, message in enumerate(history):
        wanted = "assistant" if number % 2 else "user"
        if not isinstance(message, dict) or message.get("role") != wanted:
            raise UnreadableRecord(f"history: message {number + 1} must be the {wanted}'s")
    if not history:
        raise UnreadableRecord("history: is empty")
    return history


def _appraisal(planning: Mapping[str, Any], where: str) -> Appraisal:
    change = _read(planning, "change", int, where)
    if abs(change) > 10:
        raise UnreadableRecord(f"{where}: the change must be -10..10, got {change}")
    content, target, activity, feeling = (
        _LABEL.sub("", _read(planning, name, str, where)) for name in ("content", "TargetCompletion", "activity", "analyse")
    )
    return Appraisal(content=content, target=target, activity=activity, feeling=feeling, change=change)


def _read(source: Mapping[str, Any], name: str, kind: type, where: str = "") -> Any:
    value = source.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UnreadableRecord(f"{where + ': ' if where else ''}{name}: expected {kind.__name__}, got {type(value).__name__}")
    return value
