"""What the appraiser may look at: who is talking, what was said so far, and the reply. Nothing that comes later is here to be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from components.personas.importers import CLASS_OF
from components.personas.persona import HiddenNeed, Persona, PersonaClass
from components.personas.profile_text import scene_parts

NEEDS = tuple(need.value for need in HiddenNeed)
CLASSES = tuple(kind.value for kind in PersonaClass)

Original = Mapping[str, Any] | None  # an imported record, see Dialogue.original


@dataclass(frozen=True)
class Known:
    """What is known of the user. "" and None mean that nobody knows; nothing is guessed."""

    need: str | None = None
    persona_class: str | None = None
    background: str = ""
    serves: str = ""
    misses: str = ""


@dataclass(frozen=True)
class Moment:
    """One reply in its dialogue. `emotion` and `last_change` are those before the reply, where they are known, else None."""

    known: Known
    users: tuple[str, ...]  # the user's messages, the one replied to last
    replies: tuple[str, ...]  # the assistant's, the one to be appraised last
    emotion: int | None = None
    last_change: int | None = None


def known_of(persona: Persona) -> Known:
    return Known(
        persona.hidden_need.value,
        persona.persona_class.value,
        persona.background,
        persona.reactions.get("serves", persona.reactions.get("text", "")),
        persona.reactions.get("misses", persona.reactions.get("text", "")),
    )


def known_from(need: str | None, original: Original, persona: Persona | None) -> Known:
    """From the persona's record, else from the imported SAGE record of a dialogue, else its recorded need alone."""
    if persona is not None:
        return known_of(persona)
    known, original = Known(need), original or {}
    scene, kind = original.get("scene"), original.get("character")
    if isinstance(kind, str) and kind in CLASS_OF:
        known = replace(known, persona_class=CLASS_OF[kind].value)
    if not isinstance(scene, str):
        return known
    background, reactions = scene_parts(scene)
    rules = reactions.get("text", "")
    return replace(known, background=background, serves=reactions.get("serves", rules), misses=reactions.get("misses", rules))


def moments_of(known: Known, users: Sequence[str], replies: Sequence[str]) -> list[Moment]:
    """A moment for every reply, none of which knows an emotion."""
    return [Moment(known, tuple(users[: turn + 1]), tuple(replies[: turn + 1])) for turn in range(len(replies))]
