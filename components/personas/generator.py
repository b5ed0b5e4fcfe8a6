"""Composes personas from the scenario library: who, which need, which story, which words.

Train and test share no scenario and no first name. Within a split, need x class is as equal as counts allow, and each need
walks round the scenarios, so that a scenario says nothing about the need. The same seed gives the same bytes everywhere: all
randomness comes from `random.Random(<text>)`, all choices by hash from sha256, and no set or clock is ever iterated or read.
"""

from __future__ import annotations

import datetime
import random
import string
from collections.abc import Mapping
from typing import Any, NamedTuple

from rlver.components.domain.persona import (
    SPEAKING_STYLES,
    TRAITS_OF_CLASS,
    HiddenNeed,
    OtherPerson,
    Persona,
    PersonaClass,
    Story,
    TimelineEvent,
)
from rlver.components.personas.library import GROUPS, Library, Scenario, SpecialScenario
from rlver.components.personas.needs import WORDS
from rlver.components.personas.people import TEST_SHARE, character, jobs_for, people_of, reactions, stable_hash

GENERATOR = "rlver-library/1"
EARLIEST_TALK = datetime.date(2024, 1, 1)

NEEDS = tuple(HiddenNeed)
PERSONA_CLASSES = tuple(PersonaClass)


class Slot(NamedTuple):
    """One persona to be composed: what is decided before any word is chosen."""

    need: HiddenNeed
    persona_class: PersonaClass
    scenario: Scenario


def compose_personas(library: Library, seed: int, train: int, test: int) -> tuple[list[Persona], list[Persona]]:
    """`train` and `test` personas; every run of eight consecutive rows from the start has each need once.

    Raises ValueError if the library is too small to give each split a scenario of its own.
    """
    train_scenarios, test_scenarios = split_scenarios(library)
    return compose_split("train", train_scenarios, seed, train), compose_split("test", test_scenarios, seed, test)


def split_scenarios(library: Library) -> tuple[list[Scenario], list[Scenario]]:
    """Scenarios for train and for test: of each domain a quarter, those with the smallest hash of their id, goes to test."""
    train: list[Scenario] = []
    test: list[Scenario] = []
    for scenarios in library.domains().values():
        ranked = sorted(scenarios, key=lambda one: stable_hash("scenario", one.id))
        cut = round(len(ranked) * TEST_SHARE)
        test += ranked[:cut]
        train += ranked[cut:]
    if not train or not test:
        raise ValueError(f"scenario library: {len(library.scenarios)} scenario(s) are too few to give train and test different ones")
    return sorted(train, key=lambda one: one.id), sorted(test, key=lambda one: one.id)


def compose_split(split: str, scenarios: list[Scenario], seed: int, count: int) -> list[Persona]:
    slots = _slots(scenarios, random.Random(f"{GENERATOR}|{seed}|{split}|slots"), count)
    names = names_of(split, len(slots), random.Random(f"{GENERATOR}|{seed}|{split}|names"))
    return [
        _persona(split, index, slot, gender, name, seed)
        for index, (slot, (gender, name)) in enumerate(zip(slots, names, strict=True), start=1)
    ]


def _slots(scenarios: list[Scenario], rng: random.Random, count: int) -> list[Slot]:
    order = rng.sample(scenarios, len(scenarios))
    by_need: list[list[Slot]] = []
    dealt = 0
    for need, classes in _cells(count).items():
        rng.shuffle(classes)
        mine = [Slot(need, one, order[(dealt + k) % len(order)]) for k, one in enumerate(classes)]
        dealt += len(classes)
        rng.shuffle(mine)
        by_need.append(mine)
    slots: list[Slot] = []
    while any(by_need):
        block = [mine.pop() for mine in by_need if mine]
        slots += rng.sample(block, len(block))
    return slots


def _cells(count: int) -> dict[HiddenNeed, list[PersonaClass]]:
    """For each need the classes of its personas; cell sizes differ by at most one, and so do the totals of needs and of classes."""
    cells: dict[HiddenNeed, list[PersonaClass]] = {need: [] for need in NEEDS}
    for k in range(count):
        row, round_number = k % len(NEEDS), k // len(NEEDS)
        cells[NEEDS[row]].append(PERSONA_CLASSES[(row + round_number) % len(PERSONA_CLASSES)])
    return cells


def names_of(split: str, count: int, rng: random.Random) -> list[tuple[str, str]]:
    """Gender and full name of `count` personas, no full name twice; beyond half of the plain names with a middle initial."""
    people = people_of(split)
    plain = min(map(len, people.first_names.values())) * len(people.surnames)
    if count > 10 * plain:
        raise ValueError(f"there are names for {10 * plain} {split} personas, {count} were asked for")
    used: set[str] = set()
    names: list[tuple[str, str]] = []
    for _ in range(count):
        gender = rng.choice(("f", "m"))
        while True:
            first, surname = rng.choice(people.first_names[gender]), rng.choice(people.surnames)
            name = f"{first} {surname}" if len(used) < plain // 2 else f"{first} {rng.choice(string.ascii_uppercase)}. {surname}"
            if name not in used:
                break
        used.add(name)
        names.append((gender, name))
    return names


def _persona(split: str, index: int, slot: Slot, gender: str, full_name: str, seed: int) -> Persona:
    scenario = slot.scenario
    rng = random.Random(f"{GENERATOR}|{seed}|{split}|{index}|{scenario.id}|{slot.need}|{slot.persona_class}|{full_name}")
    people = people_of(split)
    name = full_name.split()[0]
    other = rng.choice([one for one in people.first_names[scenario.other.gender] if one != name])
    words = {"name": name, "other": other}
    age = rng.randint(*scenario.ages)
    traits = tuple(rng.sample(TRAITS_OF_CLASS[slot.persona_class], 3))
    style = rng.choice(SPEAKING_STYLES)
    job = rng.choice(jobs_for(scenario.id, age))
    hobbies = rng.sample(people.hobbies, 3)
    opener = rng.choice(scenario.openers).format_map(words)
    return told(
        story_of(scenario, words, talk_date(seed, split, index)), full_name, age, gender, job, hobbies, traits, slot.persona_class, style,
        persona_id=f"en-{split}-{index:04d}-{stable_hash(GENERATOR, seed, split, index, scenario.id, slot.need, full_name)[:10]}",
        split=split,
        hidden_need=slot.need,
        need_text=WORDS[slot.need].need_text,
        reactions=reactions(name, slot.need, slot.persona_class, traits),
        first_line=opener[:1].upper() + opener[1:],
        seed=seed,
        generator=GENERATOR,
    )  # fmt: skip


def told(
    story: Story, full_name: str, age: int, gender: str, job: str, hobbies: list[str], traits: tuple[str, ...], persona_class: PersonaClass, style: str,
    **own: Any,
) -> Persona:  # fmt: skip
    """A generated persona with its portrait and background; `own`: what the kinds of personas differ in."""
    name = full_name.split()[0]
    who = f"{full_name} is a {'woman' if gender == 'f' else 'man'} of {age} and {job}."
    likes = f"{name} likes {hobbies[0]}, {hobbies[1]} and {hobbies[2]}."
    return Persona(
        language="en",
        source="generated",
        persona_class=persona_class,
        traits=traits,
        portrait=" ".join([who, likes, *character(name, persona_class, traits, style)]),
        background=background_of(story, name),
        topic=story.topic,
        age=age,
        gender=gender,
        occupation=job,
        name=full_name,
        style=style,
        story=story,
        **own,
    )


def talk_date(seed: int, split: str, index: int) -> datetime.date:
    """The day of the conversation: a fixed day within two years, never today's."""
    return EARLIEST_TALK + datetime.timedelta(days=int(stable_hash("talk", seed, split, index)[:8], 16) % 730)


def story_of(scenario: Scenario | SpecialScenario, words: Mapping[str, str], talk: datetime.date) -> Story:
    """The scenario with its names (`words`: name, other) and, counted from the day of the talk, its dates."""

    def said(text: str) -> str:
        return text.format_map(words)

    def sentence(text: str) -> str:
        return text[:1].upper() + text[1:]

    return Story(
        scenario_id=scenario.id,
        domain=scenario.domain,
        topic=scenario.topic,
        other=OtherPerson(role=scenario.other.role, name=words["other"], gender=scenario.other.gender),
        cause=sentence(said(scenario.cause)),
        timeline=tuple(
            TimelineEvent(
                date=(talk + datetime.timedelta(days=one.day)).isoformat(), event=sentence(said(one.event)), feeling=said(one.feeling)
            )
            for one in scenario.timeline
        ),
        conflict_event=said(scenario.conflict.event),
        conflict_people=said(scenario.conflict.people),
        conflict_inner_cause=said(scenario.conflict.inner_cause),
        present=said(scenario.present),
        feels_like=said(scenario.feels_like),
        **{group: tuple(map(said, getattr(scenario, group))) for group in GROUPS},
    )


def background_of(story: Story, name: str) -> str:
    """The whole story as prose: cause, dated events, conflict, what failed, where it stands. Neither need nor reactions."""
    paragraphs = [
        story.cause,
        " ".join(f"On {_day(one.date)}: {_stop(one.event)} {name} felt: {_stop(one.feeling)}" for one in story.timeline),
        f"The conflict: {_stop(story.conflict_event)} It is between {_stop(story.conflict_people)} Beneath it: {_stop(story.conflict_inner_cause)}",
        f"What has been tried and did not help: {' '.join(_stop(one) for one in story.attempts)}",
        f"How it stands: {_stop(story.present)}",
        f'In the words of {name}: "{story.feels_like}"',
    ]
    return "\n\n".join(paragraphs)


def _day(iso_date: str) -> str:
    """2025-03-04 -> 4 March 2025, without the locale."""
    date = datetime.date.fromisoformat(iso_date)
    return f"{date.day} {MONTHS[date.month - 1]} {date.year}"


MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def _stop(text: str) -> str:
    return text if text.endswith((".", "!", "?", '"')) else text + "."
