"""Opinions on single replies, whoever holds them: what a second opinion and the consistency audit ask.

An appraiser is given the whole dialogue up to a reply, so it can be asked about any recorded reply, in any order, again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from components.dialogue.transcript import Dialogue, Turn
from components.evaluation.reappraisal import listener_of
from components.personas.persona import Persona
from components.simulator.distilled.appraiser import appraisals
from components.simulator.distilled.model import Distilled
from components.simulator.distilled.moment import known_of
from components.simulator.emotion import apply_change
from components.simulator.llm.questions import Exchange as LLMExchange
from components.simulator.llm.simulator import LLMSimulator
from components.simulator.protocol import SimulatorUnavailable
from components.simulator.scripted.appraiser import Exchange, appraise
from components.simulator.scripted.effects import DIFFICULTIES


class Appraiser(Protocol):
    @property
    def name(self) -> str: ...

    async def change_after(self, persona: Persona, exchanges: Sequence[Exchange], emotion: int, seed: int) -> int:
        """How the reply of the last exchange moves the user, -10..10; `emotion` is the one before it. Raises SimulatorUnavailable."""
        ...


@dataclass(frozen=True)
class ScriptedAppraiser:
    """The explicit rules; emotion and seed play no part in them."""

    difficulty: str

    def __post_init__(self) -> None:
        if self.difficulty not in DIFFICULTIES:
            raise ValueError(f"unknown difficulty {self.difficulty!r}: choose one of {', '.join(DIFFICULTIES)}")

    @property
    def name(self) -> str:
        return f"scripted:{self.difficulty}"

    async def change_after(self, persona: Persona, exchanges: Sequence[Exchange], emotion: int, seed: int) -> int:
        *earlier, last = exchanges
        return appraise(listener_of(None, persona), DIFFICULTIES[self.difficulty], earlier, last.user, last.reply).change


@dataclass(frozen=True)
class LLMAppraiser:
    """The appraising model of an LLM user, whose endpoint is open."""

    user: LLMSimulator

    @property
    def name(self) -> str:
        return f"llm:{self.user.parameters.appraiser.model}"

    async def change_after(self, persona: Persona, exchanges: Sequence[Exchange], emotion: int, seed: int) -> int:
        heard = [LLMExchange(one.user, one.reply) for one in exchanges]
        return (await self.user.appraise_after(persona, heard, emotion, seed)).change


@dataclass(frozen=True)
class DistilledAppraiser:
    """The one learned from recordings, as it lies in a folder. Raises UnfamiliarUser for a user it knows nothing of."""

    model: Distilled

    @property
    def name(self) -> str:
        return self.model.version

    async def change_after(self, persona: Persona, exchanges: Sequence[Exchange], emotion: int, seed: int) -> int:
        turns = [Turn(user=one.user, assistant=one.reply) for one in exchanges]
        return appraisals(self.model, known_of(persona), turns)[-1].change


async def final_emotions(appraiser: Appraiser, dialogues: Sequence[Dialogue], personas: Mapping[str, Persona]) -> dict[str, int]:
    """By id, what the dialogues are worth to another appraiser; those that it gave no readable answer on are left out."""
    found = await asyncio.gather(*(_final_emotion(appraiser, one, personas[one.persona_id]) for one in dialogues))
    return {one.dialogue_id: emotion for one, emotion in zip(dialogues, found, strict=True) if emotion is not None}


async def _final_emotion(appraiser: Appraiser, dialogue: Dialogue, persona: Persona) -> int | None:
    """The recorded words, emotions from the first reply on anew, no stop before their end."""
    exchanges = [Exchange(turn.user, turn.assistant) for turn in dialogue.turns]
    emotion = dialogue.emotion_start
    try:
        for count in range(1, len(exchanges) + 1):
            emotion = apply_change(emotion, await appraiser.change_after(persona, exchanges[:count], emotion, dialogue.seed))
    except SimulatorUnavailable:
        return None
    return emotion
