"""A persona of the project's schema, put together from its part, its scenario and what the model wrote of the person."""

from __future__ import annotations

import random
from dataclasses import dataclass

from components.authoring.answers import Person
from components.authoring.casting import Part
from components.authoring.language import Language
from components.authoring.parameters import Order
from components.personas.generator import story_of, talk_date
from components.personas.library import Scenario
from components.personas.people import stable_hash
from components.personas.persona import Persona, Story


@dataclass(frozen=True)
class Cast:
    """A part in its scenario: everything about a persona but who it is."""

    part: Part
    scenario: Scenario
    gender: str
    name: str  # as stories and portraits call the persona
    age: int
    story: Story
    background: str
    first_line: str


def cast(order: Order, language: Language, part: Part, scenario: Scenario, gender: str) -> Cast:
    rng = random.Random(f"cast|{order.language}|{order.split}|{order.seed}|{part.number}|{scenario.id}")
    name = language.called(part.full_name)
    words = {"name": name, "other": part.other}
    story = story_of(scenario, words, talk_date(order.seed, order.split, part.number))
    opener = rng.choice(scenario.openers).format_map(words)
    return Cast(
        part=part,
        scenario=scenario,
        gender=gender,
        name=name,
        age=rng.randint(*scenario.ages),
        story=story,
        background=language.background_of(story, name),
        first_line=opener[:1].upper() + opener[1:],
    )


def persona_of(order: Order, language: Language, cast: Cast, person: Person, generator: str) -> Persona:
    """The bounds of what was read keep every field within the schema's."""
    part = cast.part
    portrait = [language.who(part.full_name, cast.age, cast.gender, person.occupation, person.hobbies)]
    identity = stable_hash(generator, order.seed, order.split, part.number, cast.scenario.id, part.need, part.full_name)[:10]
    return Persona(
        persona_id=f"llm-{order.language}-{order.split}-{part.number + 1:04d}-{identity}",
        language=order.language,
        source="generated",
        split=order.split,
        hidden_need=part.need,
        need_text=language.need_text(part.need),
        persona_class=part.persona_class,
        traits=part.traits,
        portrait=" ".join([*portrait, person.habits, person.speech, person.manner]),
        background=cast.background,
        reactions=language.reactions(cast.name, part.need, part.persona_class, part.traits),
        first_line=cast.first_line,
        topic=cast.scenario.topic,
        age=cast.age,
        gender=cast.gender,
        occupation=person.occupation,
        name=part.full_name,
        style=part.style,
        story=cast.story,
        seed=order.seed,
        generator=generator,
    )
