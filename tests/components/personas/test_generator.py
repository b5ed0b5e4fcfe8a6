"""Composed personas: the same bytes everywhere, balanced, apart, complete."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rlver.components.domain.persona import SPEAKING_STYLES, TRAITS_OF_CLASS, HiddenNeed, Persona, PersonaClass
from rlver.components.personas.generator import NEEDS, compose_personas, split_scenarios
from rlver.components.personas.library import Library, load_library
from rlver.components.personas.needs import WORDS, stated_need
from rlver.components.personas.people import REACTION_KEYS, character, people_of, prose, reactions

Split = tuple[list[Persona], list[Persona]]

ROOT = Path(__file__).parents[3]


def text_of(personas: list[Persona]) -> str:
    return "".join(one.model_dump_json() + "\n" for one in personas)


@pytest.fixture(scope="module")
def full() -> Split:
    return compose_personas(load_library(), seed=7, train=500, test=100)


def test_the_same_seed_gives_the_same_personas_and_another_seed_others(library: Library, personas: Split) -> None:
    again = compose_personas(library, seed=7, train=48, test=24)
    other = compose_personas(library, seed=8, train=48, test=24)

    assert again == personas
    assert not {one.persona_id for one in other[0]} & {one.persona_id for one in personas[0]}


def test_the_order_of_hashes_in_python_does_not_matter() -> None:
    code = (
        "import hashlib; from rlver.components.personas.generator import compose_personas; from rlver.components.personas.library import load_library\n"
        "train, test = compose_personas(load_library(), 7, 64, 16)\n"
        "print(hashlib.sha256(''.join(one.model_dump_json() for one in train + test).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1")
    }

    assert len(digests) == 1
    assert digests == {
        hashlib.sha256(
            "".join(one.model_dump_json() for half in compose_personas(load_library(), 7, 64, 16) for one in half).encode()
        ).hexdigest()
        + "\n"
    }


def test_500_and_100_personas_share_no_scenario_name_portrait_story_or_id(full: Split) -> None:
    train, test = full

    assert (len(train), len(test)) == (500, 100)
    assert len({one.persona_id for one in train + test}) == 600
    assert len({one.portrait for one in train + test}) == 600
    assert not {one.story.scenario_id for one in train if one.story} & {one.story.scenario_id for one in test if one.story}
    assert not {str(one.name).split()[0] for one in train} & {str(one.name).split()[0] for one in test}
    assert not {one.story.other.name for one in train if one.story} & {one.story.other.name for one in test if one.story}
    assert not {one.background for one in train} & {one.background for one in test}


def test_needs_and_classes_are_as_equal_as_the_counts_allow(full: Split) -> None:
    for half, size in zip(full, (500, 100), strict=True):
        cells = Counter((one.hidden_need, one.persona_class) for one in half)
        needs = Counter(one.hidden_need for one in half)
        assert len(cells) == 24
        assert set(cells.values()) <= {size // 24, size // 24 + 1}
        assert set(needs.values()) <= {size // 8, size // 8 + 1}


def test_a_scenario_says_nothing_about_the_need(full: Split) -> None:
    for half in full:
        counts: dict[str, Counter[HiddenNeed]] = {}
        for one in half:
            assert one.story is not None
            counts.setdefault(one.story.scenario_id, Counter())[one.hidden_need] += 1
        sizes = [sum(one.values()) for one in counts.values()]
        assert max(sizes) - min(sizes) <= 1
        assert max(max(one[need] for need in NEEDS) - min(one[need] for need in NEEDS) for one in counts.values()) <= 1


def test_any_eight_rows_in_step_have_every_need_once(full: Split) -> None:
    train, _ = full

    assert all({one.hidden_need for one in train[start : start + 8]} == set(HiddenNeed) for start in range(0, 496, 8))


def test_a_quarter_of_each_domain_is_kept_for_test(library: Library) -> None:
    train, test = split_scenarios(library)

    assert Counter(one.domain for one in test) == dict.fromkeys(("family", "work", "money", "friends"), 1)
    assert Counter(one.domain for one in train) == dict.fromkeys(("family", "work", "money", "friends"), 3)


def test_a_library_that_cannot_be_split_is_refused(library: Library) -> None:
    with pytest.raises(ValueError, match="too few"):
        compose_personas(Library(scenarios=library.scenarios[:1]), seed=7, train=8, test=8)


def test_every_text_is_filled_in_and_none_gives_the_need_away(full: Split) -> None:
    for one in (*full[0], *full[1]):
        assert one.story is not None and one.first_line is not None
        shown = one.model_dump_json(exclude={"hidden_need", "need_text", "reactions"})
        assert "{name}" not in shown and "{other}" not in shown
        assert one.need_text not in one.background + one.portrait + one.first_line
        assert all(stated_need(text) is None for text in (one.first_line, *one.story.lines))
        assert one.first_line[0].isupper()


def test_age_job_traits_and_names_fit(full: Split) -> None:
    library = {one.id: one for one in load_library().scenarios}
    for half in full:
        for one in half:
            assert one.story is not None and one.age is not None and one.name is not None
            youngest, oldest = library[one.story.scenario_id].ages
            assert youngest <= one.age <= oldest
            assert len(set(one.traits)) == 3 and set(one.traits) <= set(TRAITS_OF_CLASS[one.persona_class])
            assert one.occupation is not None and not re.search(r"\b(?:game|IT|software|programmer|developer)\b", one.occupation)
            assert one.name.split()[0] != one.story.other.name
            assert one.style in SPEAKING_STYLES
            assert one.name in one.portrait and one.occupation in one.portrait


def test_dates_follow_the_days_of_the_scenario_and_never_the_clock(personas: Split) -> None:
    story = personas[0][0].story
    assert story is not None
    first, *_, last = [datetime.date.fromisoformat(one.date) for one in story.timeline]

    assert (last - first).days == 39  # -40 to -1
    assert datetime.date(2023, 1, 1) < first < last < datetime.date(2026, 1, 1)
    assert f"{first.day} " in personas[0][0].background and str(first.year) in personas[0][0].background


def test_the_first_line_is_one_of_the_openers(personas: Split, library: Library) -> None:
    one = personas[0][0]
    assert one.story is not None
    scenario = next(each for each in library.scenarios if each.id == one.story.scenario_id)

    assert one.first_line in {text.format(other=one.story.other.name) for text in scenario.openers}


def test_reactions_cover_every_tier_for_every_class_and_trait() -> None:
    for persona_class, pool in TRAITS_OF_CLASS.items():
        seen = set()
        for k in range(len(pool)):
            traits = tuple(pool[(k + step) % len(pool)] for step in range(3))
            texts = reactions("Ada", HiddenNeed.DEEP_EMPATHY, persona_class, traits)
            assert sorted(texts) == sorted(REACTION_KEYS)
            assert all("Ada" in texts[tier] and "{" not in texts[tier] for tier in "SABCF")
            seen.add(texts["A"])
        assert len(seen) == len(pool)


def test_words_exist_for_every_need_class_trait_and_style() -> None:
    assert set(WORDS) == set(HiddenNeed)
    assert prose()["classes"].keys() == set(PersonaClass) and prose()["styles"].keys() == set(SPEAKING_STYLES)
    assert prose()["traits"].keys() == {trait for pool in TRAITS_OF_CLASS.values() for trait in pool} and len(prose()["traits"]) == 28
    for persona_class, traits in TRAITS_OF_CLASS.items():
        for style in SPEAKING_STYLES:
            sentences = character("Ada", persona_class, traits, style)
            assert len(set(sentences)) == len(traits) + 2 and not any("{" in one for one in sentences)


def test_first_names_and_surnames_of_the_splits_are_apart() -> None:
    train, test = people_of("train"), people_of("test")
    names = {split: {*one.first_names["f"], *one.first_names["m"]} for split, one in (("train", train), ("test", test))}

    assert names["train"] and names["test"] and not names["train"] & names["test"]
    assert not set(train.surnames) & set(test.surnames)


@pytest.mark.long
def test_names_never_run_out_silently(library: Library) -> None:
    _, test = compose_personas(library, seed=7, train=8, test=1400)
    assert len({one.name for one in test}) == 1400

    with pytest.raises(ValueError, match="there are names for"):
        compose_personas(library, seed=7, train=8, test=10**6)
