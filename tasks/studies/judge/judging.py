"""Judging many dialogues: marks for each, or the reason why there are none; then means with intervals over scenarios or personas.

A dialogue without a usable answer is unscorable: it is counted and enters no mean, never as a low mark.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rlver.components.domain.protocols import SimulatorUnavailable
from rlver.components.domain.transcript import Dialogue
from rlver.components.endpoint.chat import ChatEndpoint, ChatRequest, Message
from rlver.components.report.tables import plain_table
from rlver.components.report.wording import DASH
from rlver.components.rollout.episode import together
from rlver.components.scoring.behaviour import mean
from rlver.components.scoring.statistics import Interval, by_cluster
from rlver.components.scoring.units import Sampling
from rlver.components.settings.study_sections import JudgeSettings
from rlver.components.users.llm.answers import NotOneObject, UnparsableAnswer, first_fault, json_object, language_fault, text_fault
from rlver.components.users.llm.prompts import Prompts, quoted, said
from rlver.components.users.llm.questions import ask, call_seed
from rlver.tasks.runtime.brackets import in_brackets

PROMPTS = Prompts(__package__, "v1")
CAPABILITIES = ("empathic_depth", "core_insight", "solution_crafting", "dialogue_guidance", "style_adaptability")
_HAN = re.compile("[\u4e00-\u9fff]")


class JudgeParameters(JudgeSettings):
    """The section `judge` with the model that judges."""

    model: str


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


_LEVELS, _AXIS = Interval(1.0, 5.0), Interval(-5.0, 5.0)
_AXES = {"x": "structured_creative", "y": "solution_emotion"}

Judged = Mapping[str, Marks | str]  # by dialogue: marks, or why there are none


async def marks_of(
    endpoint: ChatEndpoint, dialogues: Sequence[Dialogue], parameters: JudgeParameters, concurrency: int, judged: Callable[[], None]
) -> dict[str, Marks | str]:
    """Marks by dialogue_id, or the reason of a dialogue that could not be judged. `judged` is called after each. BudgetExceeded passes."""
    slots = asyncio.Semaphore(concurrency)

    async def one(dialogue: Dialogue) -> Marks | str:
        language = language_of(dialogue)
        async with slots:
            try:
                return await ask(
                    endpoint,
                    question(dialogue, parameters),
                    lambda text: read_marks(text, language),
                    lambda reason: PROMPTS.fill(f"repair.{language}", reason=reason),
                    parameters.max_repairs,
                    dialogue.dialogue_id,
                )
            except SimulatorUnavailable as error:
                return str(error)
            finally:
                judged()

    answers = await together(one(dialogue) for dialogue in dialogues)
    return {dialogue.dialogue_id: answer for dialogue, answer in zip(dialogues, answers, strict=True)}


def summary(dialogues: Sequence[Dialogue], judged: Judged, parameters: JudgeParameters, how: Sampling) -> dict[str, Any]:
    """JSON-ready: who judged, capabilities and cognition in the shape of a portrait, and every dialogue's marks.

    Raises ValueError when no dialogue has marks.
    """
    marked = [(dialogue, marks) for dialogue in dialogues if isinstance(marks := judged[dialogue.dialogue_id], Marks)]
    reasons = {name: why for name, why in judged.items() if isinstance(why, str)}
    if not marked:
        raise ValueError(f"none of {len(judged)} dialogues could be judged; the first: {next(iter(reasons.values()), 'there are none')}")

    def mean_of(name: str, whole_range: Interval) -> dict[str, Any]:
        values = by_cluster((dialogue.persona_id, float(getattr(marks, name))) for dialogue, marks in marked)
        return mean(values, whole_range, how, "no dialogue was judged")

    method = f"judged by {parameters.model} with rubrics {PROMPTS.version}-{PROMPTS.digest()}"
    return {
        "method": method,
        "dialogues": len(judged),
        "unscorable": len(reasons),
        "capabilities": {name: {**mean_of(name, _LEVELS), "method": method} for name in CAPABILITIES},
        "cognition": {axis: mean_of(name, _AXIS) for axis, name in _AXES.items()} | {"method": method},
        "marks": {dialogue.dialogue_id: marks.model_dump() for dialogue, marks in marked},
        "reasons": reasons,
    }


def table(drawn: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for each quantity, a column for each file; what is unknown is a dash, and its reason stands below."""
    rows: dict[str, dict[str, str]] = {}
    reasons: dict[str, dict[str, None]] = {}
    for file, one in drawn.items():
        for name, quantity in _quantities(one):
            rows.setdefault(name, {})[file] = _cell(quantity)
            if "reason" in quantity:
                reasons.setdefault(quantity["reason"], {})[name] = None
    body = plain_table(["", *drawn], ((name, *(cells.get(file, DASH) for file in drawn)) for name, cells in rows.items()))
    notes = [f"–: {reason} ({', '.join(names)})" for reason, names in reasons.items()]
    return "\n".join([body, *(["", *notes] if notes else [])])


def _quantities(one: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    strategies = one.get("strategies", {})
    return [
        *one["capabilities"].items(),
        ("structured to creative", one["cognition"]["x"]),
        ("solution to emotion", one["cognition"]["y"]),
        *((f"{name}: {what}", used[what]) for name, used in strategies.items() for what in ("frequency", "contribution")),
        *one.get("acceptance", {}).items(),
        *one.get("behaviour", {}).items(),
    ]


def _cell(quantity: Mapping[str, Any]) -> str:
    return DASH if quantity["value"] is None else f"{quantity['value']:.2f} {in_brackets(quantity['ci95'])}"
