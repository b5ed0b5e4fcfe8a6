"""Judging many dialogues: marks for each, or the reason why there are none; then means with intervals over personas.

A dialogue without a usable answer is unscorable: it is counted and enters no mean, never as a low mark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from components.dialogue.transcript import Dialogue
from components.endpoint.chat import ChatEndpoint
from components.evaluation.judge.questions import CAPABILITIES, PROMPTS, JudgeParameters, Marks, language_of, question, read_marks
from components.evaluation.portrait.quantities import mean
from components.evaluation.statistics import Interval
from components.simulator.llm.asking import ask
from components.simulator.protocol import SimulatorUnavailable

_LEVELS, _AXIS = Interval(1.0, 5.0), Interval(-5.0, 5.0)
_AXES = {"x": "structured_creative", "y": "solution_emotion"}

Judged = Mapping[str, Marks | str]  # by dialogue: marks, or why there are none


async def judge(
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

    try:
        async with asyncio.TaskGroup() as group:
            asked = {dialogue.dialogue_id: group.create_task(one(dialogue)) for dialogue in dialogues}
    except ExceptionGroup as stopped:  # the first says why; the others were stopped by it
        raise stopped.exceptions[0] from None
    return {name: task.result() for name, task in asked.items()}


def summary(dialogues: Sequence[Dialogue], judged: Judged, parameters: JudgeParameters, samples: int, seed: int) -> dict[str, Any]:
    """JSON-ready: who judged, capabilities and cognition in the shape of a portrait, and every dialogue's marks.

    Raises ValueError when no dialogue has marks.
    """
    marked = [(dialogue, marks) for dialogue in dialogues if isinstance(marks := judged[dialogue.dialogue_id], Marks)]
    reasons = {name: why for name, why in judged.items() if isinstance(why, str)}
    if not marked:
        raise ValueError(f"none of {len(judged)} dialogues could be judged; the first: {next(iter(reasons.values()), 'there are none')}")

    def values(name: str) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for dialogue, marks in marked:
            found.setdefault(dialogue.persona_id, []).append(float(getattr(marks, name)))
        return found

    method = f"judged by {parameters.model} with rubrics {PROMPTS.version}-{PROMPTS.digest()}"
    return {
        "method": method,
        "dialogues": len(judged),
        "unscorable": len(reasons),
        "capabilities": {
            name: {**mean(values(name), _LEVELS, samples, seed, "no dialogue was judged"), "method": method} for name in CAPABILITIES
        },
        "cognition": {axis: mean(values(name), _AXIS, samples, seed, "no dialogue was judged") for axis, name in _AXES.items()}
        | {"method": method},
        "marks": {dialogue.dialogue_id: marks.model_dump() for dialogue, marks in marked},
        "reasons": reasons,
    }
