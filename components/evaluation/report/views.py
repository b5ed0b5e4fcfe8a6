"""A dialogue as the page shows it: text, None or numbers, so that the template and the browser's script fill the same markup.

None hides the part; "" is an empty part (a policy that says nothing says "").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.dialogue.transcript import Appraisal, Dialogue, Evidence, Turn
from components.evaluation.report import wording

SPARK_WIDTH, SPARK_HEIGHT = 96, 36  # as in the view box of dialogue.html.j2


@dataclass(frozen=True)
class EvidenceView:
    step: str
    what: str
    span: str | None
    points: str
    tone: str


@dataclass(frozen=True)
class TurnView:
    user: str
    cue: str | None
    think: str | None
    think_note: str
    reply: str
    reply_note: str
    chip: str | None  # the change; None when the reply was not appraised
    tone: str  # up | down | flat
    emotion: str
    content: str
    target: str
    activity: str
    feeling: str
    evidence: tuple[EvidenceView, ...]


@dataclass(frozen=True)
class DialogueView:
    variant: str
    dialogue_id: str
    persona: str
    need: str
    persona_class: str
    outcome: str
    final: str
    ending: str
    failure: str | None
    emotions: tuple[int, ...]  # the start, then after each turn
    turns: tuple[TurnView, ...]


def dialogue_view(variant: str, dialogue: Dialogue, persona_class: str | None = None) -> DialogueView:
    """The view of one dialogue; `variant` is the name of its file, which may differ from `dialogue.policy`."""
    final = dialogue.emotion_final
    return DialogueView(
        variant=variant,
        dialogue_id=dialogue.dialogue_id,
        persona=dialogue.persona_id,
        need=wording.readable(dialogue.hidden_need),
        persona_class=wording.readable(persona_class),
        outcome=wording.outcome(dialogue),
        final=wording.DASH if final is None else str(final),
        ending=wording.ending(dialogue),
        failure=dialogue.failure,
        emotions=(dialogue.emotion_start, *(turn.emotion for turn in dialogue.turns if turn.emotion is not None)),
        turns=tuple(_turn_view(turn) for turn in dialogue.turns),
    )


def _turn_view(turn: Turn) -> TurnView:
    appraisal = turn.appraisal or Appraisal(content="", target="", activity="", feeling="", change=0)
    return TurnView(
        user=turn.user,
        cue="hints at the need" if turn.cue else None,
        think=turn.think,
        think_note=_tokens(turn.think_tokens),
        reply=turn.assistant,
        reply_note=_tokens(turn.reply_tokens),
        chip=None if turn.appraisal is None else _points(appraisal.change),
        tone=_tone(appraisal.change),
        emotion="" if turn.emotion is None else str(turn.emotion),
        content=appraisal.content,
        target=appraisal.target,
        activity=appraisal.activity,
        feeling=appraisal.feeling,
        evidence=tuple(_evidence_view(evidence) for evidence in appraisal.evidence),
    )


def _evidence_view(evidence: Evidence) -> EvidenceView:
    return EvidenceView(
        step=evidence.step,
        what=wording.readable(evidence.what),
        span=evidence.span or None,
        points=_points(evidence.points),
        tone=_tone(evidence.points),
    )


def _points(points: int) -> str:
    return wording.signed(points, decimals=0)


def _tone(points: int) -> str:
    return "up" if points > 0 else "down" if points < 0 else "flat"


def _tokens(count: int | None) -> str:
    return "" if count is None else f"{count} token{'' if count == 1 else 's'}"


def spark(emotions: Sequence[int]) -> str:
    """The points of the emotion's polyline, in SPARK_WIDTH x SPARK_HEIGHT."""
    step = SPARK_WIDTH / max(1, len(emotions) - 1)
    return " ".join(f"{index * step:.1f},{SPARK_HEIGHT * (1 - emotion / 100):.1f}" for index, emotion in enumerate(emotions))
