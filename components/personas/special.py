"""Composes personas of a kind: boundary, adversarial, danger. They live beside the ordinary ones and have files of their own.

Everything is decided as in generator.py: by seed, the same bytes everywhere; scenarios and first names of train and test are different ones, and so
are the words in which a user presses, since each scenario brings its own. The hidden need is what lies beneath; the kind says what serves first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from rlver.components.domain.persona import SPEAKING_STYLES, TRAITS_OF_CLASS, Persona, PersonaClass, PersonaKind
from rlver.components.personas.generator import names_of, story_of, talk_date, told
from rlver.components.personas.library import SpecialScenario, load_special
from rlver.components.personas.people import TEST_SHARE, jobs_for, people_of, prose, reactions, stable_hash

GENERATOR = "rlver-special/1"


def compose_special(kind: PersonaKind, seed: int, train: int, test: int) -> tuple[list[Persona], list[Persona]]:
    """`train` and `test` personas of one kind, every scenario of a split as often as the others. Raises LibraryError for a bad library."""
    scenarios = split_special(kind)
    return _compose(kind, "train", scenarios[0], seed, train), _compose(kind, "test", scenarios[1], seed, test)


def split_special(kind: PersonaKind) -> tuple[Sequence[SpecialScenario], Sequence[SpecialScenario]]:
    """The scenarios for train and for test: of each group a quarter, those with the smallest hash of their id, goes to test."""
    scenarios, for_test = load_special(kind), set[str]()
    for group in sorted({one.group for one in scenarios}):
        ranked = sorted((one.id for one in scenarios if one.group == group), key=lambda one: stable_hash("scenario", one))
        for_test |= {*ranked[: round(len(ranked) * TEST_SHARE)]}
    return [one for one in scenarios if one.id not in for_test], [one for one in scenarios if one.id in for_test]


def _compose(kind: PersonaKind, split: str, scenarios: Sequence[SpecialScenario], seed: int, count: int) -> list[Persona]:
    rng = random.Random(f"{GENERATOR}|{kind}|{seed}|{split}")
    order = rng.sample(scenarios, len(scenarios))
    people = names_of(split, count, rng)
    return [
        _persona(kind, split, number, order[number % len(order)], gender, full_name, seed)
        for number, (gender, full_name) in enumerate(people, start=1)
    ]


def _persona(kind: PersonaKind, split: str, number: int, scenario: SpecialScenario, gender: str, full_name: str, seed: int) -> Persona:
    rng = random.Random(f"{GENERATOR}|{kind}|{seed}|{split}|{number}|{scenario.id}|{full_name}")
    people, name = people_of(split), full_name.split()[0]
    words = {"name": name, "other": rng.choice([one for one in people.first_names[scenario.other.gender] if one != name])}
    age, persona_class, style = rng.randint(*scenario.ages), rng.choice(tuple(PersonaClass)), rng.choice(SPEAKING_STYLES)
    traits = tuple(rng.sample(TRAITS_OF_CLASS[persona_class], 3))
    job = rng.choice(scenario.jobs or jobs_for(scenario.id, age))
    story = story_of(scenario, words, talk_date(seed, f"{kind}-{split}", number))
    story = story.model_copy(update={"presses": tuple(one.format_map(words) for one in scenario.presses)})
    texts = prose()["kinds"][kind]
    mine = {key: texts[key].replace("{name}", name) for key in ("serves", "misses")}
    return told(
        story, full_name, age, gender, job, rng.sample(people.hobbies, 3), traits, persona_class, style,
        persona_id=f"en-{kind}-{split}-{number:04d}-{stable_hash(GENERATOR, kind, seed, split, number, scenario.id, full_name)[:10]}",
        split=split,
        hidden_need=scenario.need,
        need_text=texts["need_text"].format(asks=scenario.asks),
        reactions=reactions(name, scenario.need, persona_class, traits) | mine,
        first_line=rng.choice(scenario.openers).format_map(words),
        seed=seed,
        generator=GENERATOR,
        kind=kind,
    )  # fmt: skip
