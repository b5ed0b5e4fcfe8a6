"""The library loads as a whole or names everything that is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from scenarios import scenario

from rlver.components.domain.persona import HiddenNeed
from rlver.components.personas.library import LibraryError, Scenario, load_library
from rlver.components.personas.needs import stated_need
from rlver.components.personas.people import occupations


def test_the_shipped_library_covers_eight_domains_with_at_least_48_scenarios() -> None:
    domains = load_library().domains()

    assert len(domains) >= 8
    assert sum(map(len, domains.values())) >= 48
    assert {"family", "school", "work", "romance", "friends", "health", "money", "loneliness"} <= set(domains)


def test_every_shipped_sentence_belongs_to_one_scenario_only() -> None:
    said = [line for one in load_library().scenarios for line in (*one.openers, *one.lines)]

    assert len(said) == len(set(said))


def test_jobs_are_told_for_scenarios_that_exist() -> None:
    assert set(occupations()) <= {one.id for one in load_library().scenarios}


def write(folder: Path, *entries: Any, name: str = "family.yaml") -> None:
    with (folder / name).open("w", encoding="utf-8") as file:
        YAML().dump(list(entries), file)


def test_the_order_of_files_and_entries_does_not_matter(tmp_path: Path) -> None:
    write(tmp_path, scenario("work", 2), scenario("work", 1), name="a.yaml")
    write(tmp_path, scenario("family", 1), name="b.yaml")

    assert [one.id for one in load_library(tmp_path).scenarios] == ["family-story-1", "work-story-1", "work-story-2"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"lines": ["Only one line."]}, "lines"),
        ({"cause": "{friend} left {name}."}, "unknown placeholder ['friend']"),
        ({"cause": "A stray { brace."}, "unknown placeholder"),
        ({"cause": "{other:>20} left {name}."}, "unknown placeholder"),
        ({"cause": "{{other}} left {name}."}, "unknown placeholder"),
        ({"openers": ["I am {name} and sad.", "My sister left.", "She left on Monday."]}, "says their own name"),
        ({"openers": ["What is that now?", "My sister left.", "She left on Monday."]}, "asks a question"),
        ({"openers": ["I just want someone to listen.", "My sister left.", "She left on Monday."]}, "attentive_listening is stated"),
        ({"openers": ["My sister left.", "My sister left.", "She left on Monday."]}, "said 2 times"),
        ({"ages": [50, 20]}, "ages must be two ordered numbers"),
        ({"ages": [12, 20]}, "ages must be two ordered numbers"),
        ({"timeline": [{"day": day, "event": "{name} ran.", "feeling": "tired"} for day in (-9, -20, -5, -1)]}, "timeline days must rise"),
        ({"timeline": [{"day": day, "event": "{name} ran.", "feeling": "tired"} for day in (-90, -80, -70, -60)]}, "end within -3..0"),
        ({"id": "work-story-1"}, "id must start with 'family'"),
        ({"other": {"role": "sister", "gender": "x"}}, "other.gender"),
        ({"mood": "bad"}, "mood"),
    ],
)
def test_a_bad_scenario_is_named_with_its_reason(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    write(tmp_path, scenario("family", 1, **changes))

    with pytest.raises(LibraryError) as raised:
        load_library(tmp_path)
    assert "family.yaml" in str(raised.value)
    assert reason in str(raised.value)


def test_all_problems_of_all_files_come_in_one_message(tmp_path: Path) -> None:
    write(tmp_path, scenario("family", 1), scenario("family", 1), name="a.yaml")
    write(tmp_path, scenario("work", 1, ages=[5, 9]), name="b.yaml")
    (tmp_path / "c.yaml").write_text("- [unclosed", encoding="utf-8")
    (tmp_path / "d.yaml").write_text("just text", encoding="utf-8")

    with pytest.raises(LibraryError) as raised:
        load_library(tmp_path)
    assert len(raised.value.problems) == 4
    assert "\n" not in str(raised.value)


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"no \*\.yaml file"):
        load_library(tmp_path)


def test_a_scenario_keeps_what_was_written() -> None:
    assert Scenario.model_validate(scenario("family", 1)).ages == [20, 50]


@pytest.mark.parametrize(
    ("text", "need"),
    [
        ("I want you to tell me it wasn't my fault.", HiddenNeed.NOT_AT_FAULT),
        ("I'd like to reflect on what I did.", HiddenNeed.SELF_REFLECTION),
        ("I want to see both sides of it.", HiddenNeed.DIALECTICAL_ANALYSIS),
        ("Nobody understands how it feels.", HiddenNeed.DEEP_EMPATHY),
        ("I just need someone to listen.", HiddenNeed.ATTENTIVE_LISTENING),
        ("I don\N{RIGHT SINGLE QUOTATION MARK}t understand why she did it.", HiddenNeed.UNDERSTAND_OTHERS),
        ("What should I do now?", HiddenNeed.USEFUL_ADVICE),
        ("I wish someone noticed all that work.", HiddenNeed.SINCERE_PRAISE),
        ("My sister sold the piano and I rang the buyer.", None),
        ("I asked her to listen to the radio with me.", None),
    ],
)
def test_a_stated_need_is_heard_and_a_plain_story_is_not(text: str, need: HiddenNeed | None) -> None:
    assert stated_need(text) is need
