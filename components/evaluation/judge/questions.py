"""What the judge is asked about one dialogue, and the strict reading of its answer.

The policy's text is quoted as data and cannot leave its place; neither emotions nor the hidden need nor the policy's name are shown: marks
must not follow the score.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.dialogue.transcript import Dialogue
from components.endpoint.chat import ChatRequest, Message
from components.simulator.llm.answers import UnparsableAnswer
from components.simulator.llm.json_object import NotOneObject, first_fault, json_object
from components.simulator.llm.prompts import Prompts
from components.simulator.llm.questions import call_seed
from components.simulator.llm.quoting import quoted, said
from components.simulator.llm.wording import language_fault, text_fault

PROMPTS = Prompts(__package__, "v1")
CAPABILITIES = ("empathic_depth", "core_insight", "solution_crafting", "dialogue_guidance", "style_adaptability")
_HAN = re.compile("[\u4e00-\u9fff]")


@dataclass(frozen=True)
class JudgeParameters:
    """Which model judges, and how it samples; `max_repairs` bounds how often an unusable answer is asked for again."""

    model: str
    temperature: float
    top_p: float
    max_tokens: int
    max_repairs: int
    max_quoted_characters: int  # of each text of the dialogue


class Marks(BaseModel):
    """The judge's answer: capabilities 1..5, places on the map -5..5."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    analysis: str
    empathic_depth: int = Field(ge=1, le=5)
    core_insight: int = Field(ge=1, le=5)
    solution_crafting: int = Field(ge=1, le=5)
    dialogue_guidance: int = Field(ge=1, le=5)
    style_adaptability: int = Field(ge=1, le=5)
    structured_creative: int = Field(ge=-5, le=5)
    solution_emotion: int = Field(ge=-5, le=5)


_SCHEMA = Marks.model_json_schema()


def language_of(dialogue: Dialogue) -> str:
    """zh when the user writes Chinese, else en."""
    words = "".join(turn.user for turn in dialogue.turns)
    return "zh" if len(_HAN.findall(words)) > len(words) / 4 else "en"


def question(dialogue: Dialogue, parameters: JudgeParameters) -> ChatRequest:
    """One request for the whole dialogue: the same for the same dialogue, so that answers are found again."""
    language = language_of(dialogue)
    longest = parameters.max_quoted_characters
    talk = [said(who, text, longest) for turn in dialogue.turns for who, text in (("person", turn.user), ("supporter", turn.assistant))]
    words = PROMPTS.fill(f"ask.{language}", quoted=quoted({"talk": talk}))
    return ChatRequest(
        model=parameters.model,
        messages=(Message("system", PROMPTS.fill(f"system.{language}")), Message("user", words)),
        temperature=parameters.temperature,
        top_p=parameters.top_p,
        max_tokens=parameters.max_tokens,
        seed=call_seed(dialogue.persona_id, dialogue.seed, len(dialogue.turns), "judge"),
        schema=_SCHEMA,
    )


def read_marks(text: str, language: str) -> Marks:
    """Raises UnparsableAnswer, whose reason holds no word of the answer."""
    try:
        marks = Marks.model_validate(json_object(text))
    except NotOneObject as error:
        raise UnparsableAnswer(str(error), text) from None
    except ValidationError as error:
        raise UnparsableAnswer(first_fault(error), text) from None
    if fault := text_fault(marks.analysis) or language_fault(marks.analysis, language):
        raise UnparsableAnswer(f"analysis {fault}", text)
    return marks
