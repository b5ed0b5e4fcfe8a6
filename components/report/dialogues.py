"""A dialogue as the page shows it: text, None or numbers, so that the template and the browser's script fill the same markup.

None hides the part; "" is an empty part (a policy that says nothing says ""). A view of nothing is what the browser's script fills. All
views stand inside the page, packed. Which are shown first is chosen by rank, not by hand.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from rlver.components.domain.transcript import Appraisal, Dialogue, Evidence, Turn
from rlver.components.report import wording

SPARK_WIDTH, SPARK_HEIGHT = 96, 36  # as in the view box of dialogue.html.j2


@dataclass(frozen=True)
class EvidenceView:
    step: str = ""
    what: str = ""
    span: str | None = None
    points: str = ""
    tone: str = "flat"


@dataclass(frozen=True)
class TurnView:
    user: str = ""
    cue: str | None = None
    think: str | None = None
    think_note: str = ""
    reply: str = ""
    reply_note: str = ""
    chip: str | None = None  # the change; None when the reply was not appraised
    tone: str = "flat"  # up | down | flat
    emotion: str = ""
    content: str = ""
    target: str = ""
    activity: str = ""
    feeling: str = ""
    evidence: tuple[EvidenceView, ...] = ()


@dataclass(frozen=True)
class DialogueView:
    variant: str = ""
    dialogue_id: str = ""
    persona: str = ""
    need: str = ""
    persona_class: str = ""
    outcome: str = ""
    final: str = ""
    ending: str = ""
    error: str | None = None
    emotions: tuple[int, ...] = ()  # the start, then after each turn
    turns: tuple[TurnView, ...] = ()


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
        error=dialogue.error,
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


def _points(points: float) -> str:
    return wording.signed(points, decimals=0 if points == round(points) else 1)


def _tone(points: float) -> str:
    return "up" if points > 0 else "down" if points < 0 else "flat"


def _tokens(count: int | None) -> str:
    return "" if count is None else f"{count} token{'' if count == 1 else 's'}"


def spark(emotions: Sequence[int]) -> str:
    """The points of the emotion's polyline, in SPARK_WIDTH x SPARK_HEIGHT."""
    step = SPARK_WIDTH / max(1, len(emotions) - 1)
    return " ".join(f"{index * step:.1f},{SPARK_HEIGHT * (1 - emotion / 100):.1f}" for index, emotion in enumerate(emotions))


_CHUNK_DIALOGUES = 50
_INDEX_FIELDS = tuple(field.name for field in fields(DialogueView) if field.name != "turns")


@dataclass(frozen=True)
class Embedded:
    """`index` and `chunks` are packed. `shown` of `total` dialogues fitted; `opened` are their policies and ids."""

    index: str
    chunks: tuple[str, ...]
    shown: int
    total: int
    opened: frozenset[tuple[str, str]]


def embed(views: Sequence[DialogueView], limit_bytes: int) -> Embedded:
    """Chunk by chunk until the next one would pass `limit_bytes`, as packed; the small index is not counted."""
    chunks: list[str] = []
    kept: list[list[DialogueView]] = []
    for chunk in _chunks(views):
        packed = _pack_turns(chunk)
        if sum(map(len, chunks)) + len(packed) > limit_bytes:
            break
        chunks.append(packed)
        kept.append(chunk)
    opened = frozenset((view.variant, view.dialogue_id) for chunk in kept for view in chunk)
    return Embedded(_pack_index(kept), tuple(chunks), sum(map(len, kept)), len(views), opened)


def _chunks(views: Sequence[DialogueView]) -> Iterator[list[DialogueView]]:
    """Dialogues by persona, whole personas together, at least _CHUNK_DIALOGUES a chunk but for the last."""
    chunk: list[DialogueView] = []
    for _, of_persona in groupby(sorted(views, key=attrgetter("persona")), key=attrgetter("persona")):
        chunk += of_persona
        if len(chunk) >= _CHUNK_DIALOGUES:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _pack_index(chunks: Sequence[Sequence[DialogueView]]) -> str:
    """Everything but the turns, and how many dialogues each chunk has."""
    texts = {"": 0}
    rows = [[_encoded(getattr(view, name), texts) for name in _INDEX_FIELDS] for chunk in chunks for view in chunk]
    return _packed(
        {
            "dialogue": _INDEX_FIELDS,
            "turn": [field.name for field in fields(TurnView)],
            "evidence": [field.name for field in fields(EvidenceView)],
            "texts": list(texts),
            "dialogues": rows,
            "chunks": [len(chunk) for chunk in chunks],
        }
    )


def _pack_turns(chunk: Sequence[DialogueView]) -> str:
    texts = {"": 0}
    turns = [_encoded(view.turns, texts) for view in chunk]
    return _packed({"texts": list(texts), "turns": turns})


def _packed(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def unpack(packed: str) -> dict[str, Any]:
    """What was packed, as the page's script reads it."""
    value: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return value


def _encoded(value: Any, texts: dict[str, int]) -> Any:
    """A view as the list of its fields: a text as its number in the order of first use, None as null, nested views as lists; emotions stay
    as they are."""
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, tuple):
        return [_encoded(item, texts) for item in value]
    if is_dataclass(value):
        return [_encoded(getattr(value, field.name), texts) for field in fields(value)]
    return texts.setdefault(value, len(texts))


class Chosen(NamedTuple):
    label: str
    dialogue: Dialogue


class BeforeAfter(NamedTuple):
    """The same persona with the base and with a trained policy; `gain` is the difference of the final emotions."""

    label: str
    before: Dialogue
    after: Dialogue
    gain: int


def best_median_worst(dialogues: Iterable[Dialogue]) -> list[Chosen]:
    """Ranked by final emotion; among equals the shorter dialogue is the better one, then the id decides. Unscorable ones have no rank."""
    ranked = sorted((d for d in dialogues if d.emotion_final is not None), key=lambda d: (d.emotion_final, -len(d.turns), d.dialogue_id))
    return [Chosen(label, ranked[place]) for place, label in _places(len(ranked), "best", "median", "worst")]


def same_persona_pairs(base: Iterable[Dialogue], tuned: Iterable[Dialogue]) -> list[BeforeAfter]:
    """Largest, median and smallest gain over the personas scored on both sides (of repeats, the first by id)."""
    before, after = _first_of_persona(base), _first_of_persona(tuned)
    gains = sorted(
        ((after[persona].emotion_final or 0) - (before[persona].emotion_final or 0), persona) for persona in before.keys() & after
    )
    picked = [(label, *gains[place]) for place, label in _places(len(gains), "largest gain", "median gain", "smallest gain")]
    return [BeforeAfter(label, before[persona], after[persona], gain) for label, gain, persona in picked]


def _places(count: int, *labels: str) -> list[tuple[int, str]]:
    """Place and label of the last, the middle and the first of so many; no place twice."""
    places = (count - 1, (count - 1) // 2, 0) if count else ()
    return [(place, label) for number, (place, label) in enumerate(zip(places, labels, strict=False)) if place not in places[:number]]


def _first_of_persona(dialogues: Iterable[Dialogue]) -> dict[str, Dialogue]:
    first: dict[str, Dialogue] = {}
    for dialogue in sorted(dialogues, key=lambda d: d.dialogue_id):
        if dialogue.emotion_final is not None:
            first.setdefault(dialogue.persona_id, dialogue)
    return first
