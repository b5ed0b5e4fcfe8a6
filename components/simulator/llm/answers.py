"""What the models answer, and the strict reading of it: a value, or UnparsableAnswer with a reason; never a default score.

The reason of a refusal is made of our own words only (see `json_object`), because an answer may repeat what the policy wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.personas.persona import Persona
from components.simulator.llm.json_object import NotOneObject, first_fault, json_object
from components.simulator.llm.wording import language_fault, message_fault, text_fault


class UnparsableAnswer(ValueError):
    """`reason` says what was wrong without a word of the answer; `raw` is the answer, which may hold the hidden need."""

    def __init__(self, reason: str, raw: str) -> None:
        super().__init__(reason)
        self.reason, self.raw = reason, raw


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class AppraisalAnswer(_Answer):
    content: str
    target: str
    activity: str
    feeling: str
    change: int = Field(ge=-10, le=10)


class SpeechAnswer(_Answer):
    thinking: str
    draft: str
    message: str
    wants_to_end: bool


class CombinedAnswer(_Answer):
    appraisal: AppraisalAnswer
    speech: SpeechAnswer


A = TypeVar("A", bound=_Answer)


def read_appraisal(text: str, persona: Persona) -> AppraisalAnswer:
    """Raises UnparsableAnswer."""
    return _read(text, AppraisalAnswer, lambda answer: _appraisal_faults(answer, persona))


def read_speech(text: str, persona: Persona) -> SpeechAnswer:
    """Raises UnparsableAnswer, also when the message gives the hidden need away."""
    return _read(text, SpeechAnswer, lambda answer: _speech_faults(answer, persona))


def read_opening(text: str, persona: Persona) -> SpeechAnswer:
    """As `read_speech`, and a first message cannot end the talk."""
    speech = read_speech(text, persona)
    if speech.wants_to_end:
        raise UnparsableAnswer("wants_to_end must be false in the first message", text)
    return speech


def read_combined(text: str, persona: Persona) -> CombinedAnswer:
    """Raises UnparsableAnswer when either half is at fault."""

    def faults(answer: CombinedAnswer) -> Iterator[str]:
        yield from _appraisal_faults(answer.appraisal, persona)
        yield from _speech_faults(answer.speech, persona)

    return _read(text, CombinedAnswer, faults)


def _appraisal_faults(answer: AppraisalAnswer, persona: Persona) -> Iterator[str]:
    reasons = answer.model_dump(exclude={"change"})
    yield from _text_faults(reasons)
    if fault := language_fault("\n".join(reasons.values()), persona.language):
        yield f"the texts {fault}"


def _speech_faults(answer: SpeechAnswer, persona: Persona) -> Iterator[str]:
    yield from _text_faults(answer.model_dump(exclude={"wants_to_end"}))
    if fault := message_fault(answer.message, persona):
        yield f"message {fault}"


def _text_faults(texts: dict[str, str]) -> Iterator[str]:
    for name, text in texts.items():
        if fault := text_fault(text):
            yield f"{name} {fault}"


def _read(text: str, kind: type[A], faults: Callable[[A], Iterator[str]]) -> A:
    try:
        answer = kind.model_validate(json_object(text))
    except NotOneObject as error:
        raise UnparsableAnswer(str(error), text) from None
    except ValidationError as error:
        raise UnparsableAnswer(first_fault(error), text) from None
    if fault := next(faults(answer), None):
        raise UnparsableAnswer(fault, text)
    return answer
