"""Dialogues with users under a shift, and a planted policy that understands its user only in the words of training."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from fakes import people

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.domain.protocols import Reply, Simulator, Tokens, Utterance
from rlver.components.domain.thinking import Said
from rlver.components.domain.transcript import Dialogue
from rlver.components.rollout.episode import Job, run_episodes
from rlver.components.users import scripted
from rlver.components.users.shifts.words import cues_of

SERVING = {
    HiddenNeed.NOT_AT_FAULT: ["None of this is your fault.", "You did nothing wrong.", "You had no way of knowing."],
    HiddenNeed.DEEP_EMPATHY: ["Underneath all that I can sense the hurt.", "That must feel so lonely.", "I can feel the grief in it."],
    HiddenNeed.ATTENTIVE_LISTENING: ["Tell me more about it.", "Go on, I am listening.", "What happened next?"],
    HiddenNeed.SINCERE_PRAISE: ["I admire how you kept going.", "You handled that with care.", "It took courage to stay."],
}
POLITE = "That sounds hard."


def understood(text: str) -> HiddenNeed | None:
    """The need whose training cue stands in the text word for word, as far as a role leaves the words alone."""
    for need, cues in cues_of(scripted.__name__).items():
        if any("{role}" not in cue and cue in text for cue in cues):
            return need
    return None


@dataclass
class KnowsTrainingCues:
    """Serves a need once it has been hinted at in exactly the words of training; else it is polite."""

    name: str = "knows-training-cues"

    def start(self) -> None:
        """Nothing was learned."""

    async def close(self) -> None:
        """Nothing was opened."""

    def session(self, dialogue_id: str, seed: int, language: str) -> KnowingSession:
        return KnowingSession()


class KnowingSession:
    tokens = Tokens()

    def __init__(self) -> None:
        self.need: HiddenNeed | None = None
        self.turn = 0

    async def reply(self, user: str) -> Reply:
        self.need = self.need or understood(user)
        words = SERVING.get(self.need, [POLITE]) if self.need else [POLITE]
        said = words[self.turn % len(words)]
        self.turn += 1
        return Reply(Said(None, said, well_formed=True), cut_off=False, reply_tokens=None, think_tokens=None)

    def close(self) -> None:
        """Nothing was kept."""


def held_with(user: Simulator, personas: Iterable[Persona], seed: int = 7) -> list[Dialogue]:
    jobs = [Job(f"knows/{persona.persona_id}/{seed}", persona, seed) for persona in personas]
    return [rollout.dialogue for rollout in asyncio.run(run_episodes(jobs, user, KnowsTrainingCues(), EmotionRules(), 16))]


def monologue(user: Simulator, persona: Persona, messages: int = 8, emotion: int = 50) -> list[Utterance]:
    """What the user says to the same reply again and again, its emotion held where it is."""

    async def talk() -> list[Utterance]:
        session = user.session(persona, 7)
        said = [await session.open()]
        for _ in range(messages - 1):
            await session.appraise("Tell me more about it.")
            said.append(await session.speak(emotion))
        return said

    return asyncio.run(talk())


def unseen_people() -> tuple[Persona, ...]:
    return people()[1]
