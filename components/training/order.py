"""Which personas are rolled out at which step: stratified over the hidden needs, every persona used once per round."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

from components.personas.persona import HiddenNeed, Persona


def hold_out(personas: Sequence[Persona], count: int, seed: int) -> tuple[list[Persona], list[Persona]]:
    """(personas to learn from, `count` personas to watch): the watched ones are never rolled out for an update, needs balanced."""
    if count >= len(personas):
        raise ValueError(f"train.evaluation_personas = {count} leaves nobody of {len(personas)} personas to train on")
    watched = {persona.persona_id for persona in _by_need(personas, Random(f"{seed}|hold out"))[:count]}
    learning = [persona for persona in personas if persona.persona_id not in watched]
    return learning, [persona for persona in personas if persona.persona_id in watched]


def persona_order(personas: Sequence[Persona], steps: int, per_step: int, seed: int) -> list[str]:
    """`steps` × `per_step` persona ids; needs take turns, so that every step sees them as evenly as `per_step` allows."""
    if len(personas) < per_step:
        raise ValueError(f"train.personas_per_step = {per_step}, but there are only {len(personas)} personas to train on")
    random = Random(f"{seed}|order")
    order: list[str] = []
    while len(order) < steps * per_step:
        order += [persona.persona_id for persona in _by_need(personas, random)]
    return order[: steps * per_step]


def _by_need(personas: Sequence[Persona], random: Random) -> list[Persona]:
    """All personas once, in random order within each need, the needs taking turns."""
    queues: dict[HiddenNeed, deque[Persona]] = {need: deque() for need in HiddenNeed}
    for persona in random.sample(list(personas), len(personas)):
        queues[persona.hidden_need].append(persona)
    order: list[Persona] = []
    while any(queues.values()):
        order += [queue.popleft() for queue in queues.values() if queue]
    return order
