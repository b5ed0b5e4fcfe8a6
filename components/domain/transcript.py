"""The words of a dialogue: appraisal, turn, dialogue, stop reason. One JSON line per dialogue is the interchange format.

A turn is: the user speaks, the assistant replies, the user appraises that reply. `Turn.emotion` is the value *after* the
appraisal, so the emotion while the user was speaking is that of the turn before (or `Dialogue.emotion_start`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field

MOST_TOKENS = 2**31  # of one reply: a longer number is no count, and no arithmetic takes any length
_DEEPEST_RECORD = 100


def writable(record: Any) -> Any:
    """`record` as it is. Raises ValueError when it has more values inside one another than can be written again."""
    layer = [record]
    for _ in range(_DEEPEST_RECORD):
        inside = (one.values() if isinstance(one, dict) else one for one in layer if isinstance(one, dict | list))
        layer = [part for parts in inside for part in parts]
    if layer:
        raise ValueError(f"more than {_DEEPEST_RECORD} values inside one another")
    return record


class StopReason(StrEnum):
    """Why a dialogue ended."""

    EMOTION_CEILING = "emotion_ceiling"
    EMOTION_FLOOR = "emotion_floor"
    TURN_LIMIT = "turn_limit"
    GOODBYE = "goodbye"
    CONTEXT_FULL = "context_full"  # the policy's next reply would not fit: it has talked too much
    FAILED = "failed"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Evidence(_Record):
    """One reason inside an appraisal: what was seen, where, and how many points it moved."""

    step: str  # content | target | effect
    what: str  # e.g. an act name, "serves_need", "repeats", "trait:suspicious"
    span: str = ""  # the words of the reply it rests on, verbatim; "" when it rests on the whole reply
    points: int | Annotated[float, Field(allow_inf_nan=False)] = 0  # contribution to the change before clamping
    # That it is really there, where the appraiser weighs it; None, and not written, where it counts as sure.
    probability: float | None = Field(default=None, allow_inf_nan=False, exclude_if=lambda probability: probability is None)


class Appraisal(_Record):
    """The user's reasons for an emotion change (SAGE paper section 2; reference: METHOD of the RLVER paper, appendix E)."""

    content: str
    target: str
    activity: str
    feeling: str
    change: int = Field(ge=-10, le=10)
    evidence: tuple[Evidence, ...] = ()


class Turn(_Record):
    """User message, assistant reply and the appraisal of that reply. `think` is never shown to the user."""

    user: str
    assistant: str
    think: str | None = None
    emotion: int | None = Field(default=None, ge=0, le=100)
    appraisal: Appraisal | None = None
    cue: bool | None = None  # the user's message hints at the hidden need; None when nobody knows (foreign transcripts)
    reply_tokens: int | None = Field(default=None, ge=0, lt=MOST_TOKENS)
    think_tokens: int | None = Field(default=None, ge=0, lt=MOST_TOKENS)


class SimulatorTag(_Record):
    """Which simulator spoke: enough to re-derive every emotion of a deterministic one."""

    kind: str
    difficulty: str
    version: str

    @property
    def names_acts(self) -> bool:
        """Whether appraisals can say that a reply served the need or repeated itself: what a learned appraiser gives as reasons cannot,
        and a model gives none."""
        return not self.kind.startswith(("distilled", "llm"))


class Dialogue(_Record):
    """One finished dialogue. `error` is a readable reason when `stop_reason` is failed; such a dialogue has no final emotion.

    Transcripts from before the name `error` say `failure`; both are read.
    """

    dialogue_id: str
    persona_id: str
    hidden_need: str | None = None
    policy: str
    seed: int
    simulator: SimulatorTag
    emotion_start: int = Field(ge=0, le=100)
    emotion_final: int | None = Field(default=None, ge=0, le=100)
    stop_reason: StopReason
    error: str | None = Field(default=None, validation_alias=AliasChoices("error", "failure"))
    turns: tuple[Turn, ...] = ()
    original: Annotated[dict[str, Any], AfterValidator(writable)] | None = Field(  # an imported record, every field of it
        default=None, exclude_if=lambda record: record is None
    )
