"""Opinions on single replies, whoever holds them: what a second opinion and the consistency audit ask.

An appraiser is given the whole dialogue up to a reply, so it can be asked about any recorded reply, in any order, again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rlver.components.domain.emotion import apply_change
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import SimulatorUnavailable
from rlver.components.domain.transcript import Dialogue, Turn
from rlver.components.replay.reappraisal import listener_of
from rlver.components.users.distilled.appraiser import appraisals
from rlver.components.users.distilled.features import known_of
from rlver.components.users.distilled.model import Distilled
from rlver.components.users.llm.questions import LLMExchange as LLMExchange
from rlver.components.users.llm.simulator import LLMSimulator
from rlver.components.users.scripted.appraiser import Exchange, appraise
from rlver.components.users.scripted.effects import DIFFICULTIES


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
