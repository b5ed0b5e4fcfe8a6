"""The familiar in place of the unseen: what training users had, put into a test persona. Need, class, traits and style stay.

Train and test personas are dealt different first names and different scenarios; nothing else tells them apart.
"""

from __future__ import annotations

import datetime
from random import Random

from rlver.components.domain.persona import Persona, Story
from rlver.components.personas.generator import background_of, split_scenarios, story_of
from rlver.components.personas.library import Scenario, load_library
from rlver.components.personas.people import people_of, stable_hash

_FAMILIAR = "train"


def with_a_training_story(persona: Persona) -> Persona:
    """The same person with a story that training users told: one for people of that age, drawn by the persona's id."""
    scenarios, _ = split_scenarios(load_library())
    fitting = [one for one in scenarios if persona.age is not None and one.ages[0] <= persona.age <= one.ages[1]] or scenarios
    scenario, story = _draw(persona, "story").choice(fitting), _story(persona)
    talk = max(datetime.date.fromisoformat(event.date) for event in story.timeline)
    opener = _draw(persona, "opener").randrange(len(scenario.openers))
    return _telling(persona, scenario, {"name": _name(persona), "other": story.other.name}, talk, opener)


def with_training_names(persona: Persona) -> Persona:
    """The same story among people whose first names were heard in training."""
    random, story = _draw(persona, "names"), _story(persona)
    scenario = next((one for one in load_library().scenarios if one.id == story.scenario_id), None)
    if scenario is None:
        raise ValueError(
            f"persona {persona.persona_id}: its scenario {story.scenario_id} is not in the library, so it cannot be renamed; leave this shift out"
        )
    names = people_of(_FAMILIAR).first_names
    name = random.choice(names[persona.gender or "f"])
    other = random.choice([one for one in names[story.other.gender] if one != name])
    renamed = persona.model_copy(update={"name": " ".join([name, *(persona.name or "").split()[1:]])})
    talk = datetime.date.fromisoformat(story.timeline[0].date) - datetime.timedelta(days=scenario.timeline[0].day)
    return _telling(renamed, scenario, {"name": name, "other": other}, talk, _opener_number(persona, scenario))


def _telling(persona: Persona, scenario: Scenario, words: dict[str, str], talk: datetime.date, opener: int) -> Persona:
    story = story_of(scenario, words, talk)
    first = scenario.openers[opener].format_map(words)
    return persona.model_copy(
        update={
            "story": story,
            "background": background_of(story, words["name"]),
            "topic": scenario.topic,
            "first_line": first[:1].upper() + first[1:],
        }
    )


def _opener_number(persona: Persona, scenario: Scenario) -> int:
    """Which of the scenario's openers the persona's first line is."""
    words = {"name": _name(persona), "other": _story(persona).other.name}
    filled = [opener.format_map(words) for opener in scenario.openers]
    return next((number for number, text in enumerate(filled) if text[1:] == (persona.first_line or "")[1:]), 0)


def _story(persona: Persona) -> Story:
    if persona.story is None:
        raise ValueError(
            f"persona {persona.persona_id}: it has no structured story, so story and names cannot be exchanged; leave this shift out"
        )
    if persona.story.presses:  # of a kind, or sealed: without them it would be another user
        raise ValueError(
            f"persona {persona.persona_id}: its story holds what it says, so story and names cannot be exchanged; choose other --shifts"
        )
    return persona.story


def _name(persona: Persona) -> str:
    return (persona.name or "").split(" ", 1)[0]


def _draw(persona: Persona, purpose: str) -> Random:
    return Random(stable_hash("shift", purpose, persona.persona_id))
