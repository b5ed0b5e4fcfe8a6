"""Names, jobs and hobbies of generated personas, and how traits, classes and styles read in a portrait and colour each tier (people.yaml).

First names are dealt out to train and test once and for all, so that no name of one split ever turns up in the other. How a persona behaves is
prose for a simulator, never for the policy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rlver.components.domain.files import read_yaml
from rlver.components.domain.persona import HiddenNeed, PersonaClass
from rlver.components.personas.needs import WORDS

TEST_SHARE = 0.25
TIERS = ("S", "A", "B", "C", "F")
REACTION_KEYS = (*TIERS, "serves", "misses")


class Occupation(NamedTuple):
    title: str  # with its article
    youngest: int
    oldest: int


class People(NamedTuple):
    """What one split may draw from: first names by gender, surnames; jobs and hobbies are shared."""

    first_names: dict[str, tuple[str, ...]]
    surnames: tuple[str, ...]
    jobs: tuple[Occupation, ...]
    hobbies: tuple[str, ...]


@cache
def people_of(split: str) -> People:
    """The pools of a split: `train`, `test`, or `sealed`, which shares them with test."""
    raw = prose()
    return People(
        first_names={gender: dealt(names.split(), split) for gender, names in raw["first_names"].items()},
        surnames=dealt(raw["surnames"].split(), split),
        jobs=tuple(Occupation(*one) for one in raw["jobs"]),
        hobbies=tuple(raw["hobbies"]),
    )


def jobs_for(scenario_id: str, age: int) -> list[str]:
    """Job titles, with article, for a person of that age in that story."""
    told: list[str] | None = occupations().get(scenario_id)
    return told or [job.title for job in people_of("train").jobs if job.youngest <= age <= job.oldest]


@cache
def occupations() -> dict[str, list[str]]:
    """Scenario id -> jobs, for the stories that say what the user does."""
    return read_yaml(Path(__file__).with_name("occupations.yaml"))


def stable_hash(*parts: object) -> str:
    """Hex digest that is the same on every platform and in every process."""
    return hashlib.sha256("|".join(str(part) for part in parts).encode()).hexdigest()


def dealt(names: Sequence[str], split: str) -> tuple[str, ...]:
    """Those of the names that belong to the split: a quarter of them, chosen by hash, is for the tests."""
    ranked = sorted(set(names), key=lambda name: stable_hash("name", name))
    cut = round(len(ranked) * TEST_SHARE)
    return tuple(sorted(ranked[cut:] if split == "train" else ranked[:cut]))


@cache
def prose() -> dict[str, Any]:
    """All of people.yaml, section by section."""
    return read_yaml(Path(__file__).with_name("people.yaml"))


def character(name: str, persona_class: PersonaClass, traits: Sequence[str], style: str) -> list[str]:
    """Sentences of a portrait on traits, way of speaking and class."""
    words = prose()
    sentences = [
        *(words["traits"][trait]["portrait"] for trait in traits),
        words["styles"][style],
        words["classes"][persona_class]["portrait"],
    ]
    return [sentence.replace("{name}", name) for sentence in sentences]


def reactions(name: str, need: HiddenNeed, persona_class: PersonaClass, traits: Sequence[str]) -> dict[str, str]:
    """Texts for the tiers S, A, B, C, F and for `serves` and `misses`; the traits colour the good and the bad tiers."""
    words = prose()
    first, second, third = (words["traits"][trait] for trait in traits)
    colour = {
        "S": "",
        "A": f" {first['good']} {second['good']}",
        "B": f" {third['bad']}" if persona_class is PersonaClass.NEGATIVE else "",
        "C": f" {first['bad']} {second['bad']}",
        "F": f" {third['bad']}",
    }
    texts = {tier: words["classes"][persona_class][tier] + colour[tier] for tier in TIERS}
    texts |= {"serves": WORDS[need].serves, "misses": WORDS[need].misses}
    return {key: text.replace("{name}", name) for key, text in texts.items()}
