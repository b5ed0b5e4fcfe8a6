"""The warm-start corpus: dialogues of a mixed supporter with the real simulator, and sentences about a small world.

Only train personas speak in it. The sentences about the small world give the policy something it can lose: general ability is
measured on held-out questions about the same world.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from components.personas.persona import Persona
from components.policy.thinking import CLOSE, OPEN
from components.policy.tiny.supporters import Moment, Move, Supporter
from components.simulator.emotion import EmotionRules, apply_change, stop_reason
from components.simulator.protocol import Simulator

T = TypeVar("T")


@dataclass(frozen=True)
class CorpusDialogue:
    """A dialogue to learn from: alternating user messages and supporter moves, spoken with or without thoughts."""

    persona_id: str
    thinking: bool
    users: tuple[str, ...]
    moves: tuple[Move, ...]
    emotion_final: int


def hold(persona: Persona, supporter: Supporter, simulator: Simulator, rules: EmotionRules, seed: int, thinking: bool) -> CorpusDialogue:
    """One dialogue between a scripted supporter and a scripted user, by the same rules as everywhere."""
    random = Random(f"{seed}|{persona.persona_id}")
    session = simulator.session(persona, seed)
    utterance = _now(session.open())
    users, cues, moves = [utterance.text], [utterance.cue is True], list[Move]()
    emotion = rules.start
    while True:
        move = supporter(Moment(persona, users, cues, moves), random)
        emotion = apply_change(emotion, _now(session.appraise(move.reply)).change)
        moves.append(move)
        if stop_reason(emotion, len(moves), False, rules):
            return CorpusDialogue(persona.persona_id, thinking, tuple(users), tuple(moves), emotion)
        utterance = _now(session.speak(emotion))
        users.append(utterance.text)
        cues.append(utterance.cue is True)


def corpus(
    personas: Sequence[Persona],
    supporter: Supporter,
    simulator: Simulator,
    rules: EmotionRules,
    dialogues: int,
    direct_share: float,
    seed: int,
) -> Iterator[CorpusDialogue]:
    """`dialogues` dialogues over all personas in turn; a `direct_share` of them without thoughts."""
    random = Random(seed)
    for number in range(dialogues):
        thinking = random.random() >= direct_share
        yield hold(personas[number % len(personas)], supporter, simulator, rules, seed * 1_000_003 + number, thinking)


def said(move: Move, thinking: bool) -> str:
    """A move as the policy would say it."""
    return f"{OPEN}{move.think}{CLOSE}{move.reply}" if thinking else move.reply


def _now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("a scripted session must not wait")
