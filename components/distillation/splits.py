"""Who is held out: decided by hashes of names, before anything is learned and for ever after.

A dialogue of an unseen persona by a known policy model, or of a known persona by an unseen model, is only half unseen. *Strictly held
out* means both at once, so a fold never learns from the other dialogues of its personas nor from those of its models.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from components.dialogue.transcript import Dialogue


def hash_order(kind: str, names: Iterable[str]) -> list[str]:
    """The distinct names in the order of sha256("<kind>:<name>"): arbitrary, and the same everywhere."""
    return sorted(set(names), key=lambda name: hashlib.sha256(f"{kind}:{name}".encode()).hexdigest())


@dataclass(frozen=True)
class Locked:
    """Personas and policy models that no choice is made on."""

    personas: frozenset[str]
    policies: frozenset[str]

    def is_development(self, dialogue: Dialogue) -> bool:
        """Neither persona nor model is locked: choices are made here."""
        return dialogue.persona_id not in self.personas and dialogue.policy not in self.policies

    def is_test(self, dialogue: Dialogue) -> bool:
        """Persona and model are both locked: strictly held out."""
        return dialogue.persona_id in self.personas and dialogue.policy in self.policies


def locked(dialogues: Iterable[Dialogue], persona_share: float, policy_share: float) -> Locked:
    """The first names in hash order, rounded up to whole ones; a single policy model is never locked, for nothing would be left."""
    kept = list(dialogues)
    personas = hash_order("persona", (dialogue.persona_id for dialogue in kept))
    policies = hash_order("policy", (dialogue.policy for dialogue in kept))
    if len(personas) < 2:
        raise ValueError(f"dialogues with at least 2 personas are needed to hold some out, got {len(personas)}")
    most = math.ceil(policy_share * len(policies)) if len(policies) > 1 else 0
    return Locked(frozenset(personas[: math.ceil(persona_share * len(personas))]), frozenset(policies[:most]))


@dataclass(frozen=True)
class Fold:
    """Positions of dialogues: `scored` by what was learned from `learned`, which shares no persona with them and, where `policies` tells
    several models apart, no model either."""

    learned: tuple[int, ...]
    scored: tuple[int, ...]


def cross_folds(dialogues: Sequence[Dialogue], persona_folds: int, policy_folds: int) -> Iterator[Fold]:
    """Every dialogue is scored once. Personas and policy models are dealt round in hash order; fewer of them give fewer folds."""
    personas = hash_order("persona", (dialogue.persona_id for dialogue in dialogues))
    policies = hash_order("policy", (dialogue.policy for dialogue in dialogues))
    persona_of = {name: number % persona_folds for number, name in enumerate(personas)}
    policy_of = {name: number % policy_folds for number, name in enumerate(policies)}
    several = len(set(policy_of.values())) > 1
    places = [(persona_of[dialogue.persona_id], policy_of[dialogue.policy]) for dialogue in dialogues]
    for cell in sorted(set(places)):
        yield Fold(
            learned=tuple(i for i, (who, by) in enumerate(places) if who != cell[0] and (by != cell[1] or not several)),
            scored=tuple(i for i, place in enumerate(places) if place == cell),
        )
