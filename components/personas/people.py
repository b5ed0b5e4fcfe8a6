"""Names, jobs and hobbies of generated personas, and how traits, classes and styles read in a portrait.

First names are dealt out to train and test once and for all, so that no name of one split ever turns up in the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from components.personas.persona import PersonaClass

TEST_SHARE = 0.25

TRAITS: dict[str, str] = {
    "angry": "{name} flares up quickly and says things in anger that are hard to take back.",
    "irritable": "Small things, a slow queue or a loud chewer, get on {name}'s nerves.",
    "coarse": "{name} swears easily, has little patience for manners and says things the rough way.",
    "presumptuous": "{name} thinks a great deal of {name}'s own plans and is sure that they will work.",
    "haughty": "{name} tends to look down on people who do not keep up.",
    "vain": "{name} cares a lot about how things look to others and likes to be admired.",
    "selfish": "When there is one good chair in the room, {name} sits in it.",
    "mean": "{name} has a sharp tongue and finds the sore spot without searching for it.",
    "lazy": "{name} puts off whatever can be put off and prefers that others begin.",
    "suspicious": "{name} looks for the catch behind kind words and takes a while to trust.",
    "introverted": "{name} recovers alone and finds long company tiring.",
    "blunt": "{name} says what comes to mind, straight out.",
    "resentful": "{name} remembers slights for years and turns them over in quiet hours.",
    "erratic": "{name}'s mood can tip within a sentence, from laughing to storming and back.",
    "anxious": "{name} lies awake over things that have not happened yet.",
    "cautious": "{name} checks twice and thinks three times before saying yes.",
    "insecure": "{name} doubts being good enough and hears criticism where none was meant.",
    "patient": "{name} can wait and rarely hurries anybody.",
    "timid": "{name} avoids raised voices and gives way before it comes to that.",
    "optimistic": "Somewhere underneath, {name} expects things to turn out all right.",
    "modest": "{name} plays down what went well and dislikes fuss.",
    "tolerant": "{name} lets others be as they are and forgives early.",
    "calm": "{name} stays level for a long time, even when others shout.",
    "quick-witted": "{name} catches on fast and likes a dry joke.",
    "evasive": "When a talk gets close, {name} changes the subject or makes tea.",
    "sensitive": "{name} picks up every change of tone and carries it around for days.",
    "aloof": "{name} keeps people at arm's length and shows little.",
    "taciturn": "{name} uses few words and leaves gaps in a talk without minding them.",
}

CLASSES: dict[PersonaClass, str] = {
    PersonaClass.NEGATIVE: "In a talk {name} pushes: contradicts, complains, tests the other side and does not soften the words.",
    PersonaClass.PASSIVE: "In a talk {name} mostly answers, lets the other side set the pace and asks few questions.",
    PersonaClass.AVOIDANT: "In a talk {name} circles around what hurts, says a little, steps back and comes nearer only when it feels safe.",
}

STYLES: dict[str, str] = {
    "plain": "{name} speaks in plain everyday sentences.",
    "terse": "{name} speaks in short sentences, often a few words only.",
    "rambling": "{name} speaks in loose sentences that wander off and find their way back.",
    "dry": "{name} speaks drily, with an understatement where others would raise their voice.",
    "warm": "{name} speaks warmly and holds on to little courtesies even when upset.",
    "formal": "{name} speaks rather formally, in full and careful sentences.",
}


class Job(NamedTuple):
    title: str  # with its article
    youngest: int
    oldest: int


class People(NamedTuple):
    """What one split may draw from: first names by gender, surnames; jobs and hobbies are shared."""

    first_names: dict[str, tuple[str, ...]]
    surnames: tuple[str, ...]
    jobs: tuple[Job, ...]
    hobbies: tuple[str, ...]


@cache
def people_of(split: str) -> People:
    """The pools of a split, `train` or `test`."""
    raw = _read("people.yaml")
    return People(
        first_names={gender: dealt(names.split(), split) for gender, names in raw["first_names"].items()},
        surnames=dealt(raw["surnames"].split(), split),
        jobs=tuple(Job(*one) for one in raw["jobs"]),
        hobbies=tuple(raw["hobbies"]),
    )


def jobs_for(scenario_id: str, age: int) -> list[str]:
    """Job titles, with article, for a person of that age in that story."""
    told: list[str] | None = occupations().get(scenario_id)
    return told or [job.title for job in people_of("train").jobs if job.youngest <= age <= job.oldest]


@cache
def occupations() -> dict[str, list[str]]:
    """Scenario id -> jobs, for the stories that say what the user does."""
    told: dict[str, list[str]] = _read("occupations.yaml")
    return told


def stable_hash(*parts: object) -> str:
    """Hex digest that is the same on every platform and in every process."""
    return hashlib.sha256("|".join(str(part) for part in parts).encode()).hexdigest()


def dealt(names: Sequence[str], split: str) -> tuple[str, ...]:
    """Those of the names that belong to the split: a quarter of them, chosen by hash, is for test."""
    ranked = sorted(set(names), key=lambda name: stable_hash("name", name))
    cut = round(len(ranked) * TEST_SHARE)
    return tuple(sorted(ranked[:cut] if split == "test" else ranked[cut:]))


@cache
def _read(name: str) -> dict[str, Any]:
    values: dict[str, Any] = YAML(typ="safe").load((Path(__file__).parent / name).read_text(encoding="utf-8"))
    return values
