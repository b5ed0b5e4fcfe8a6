"""The house stays a house: no rooms in a circle, no name for two things, files that are chapters. Figures: `python -m benchmarks.house`."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from benchmarks.house import ROOT, closure, cycles, imported, measured, shared_class_names


@pytest.fixture(scope="module")
def house() -> dict[str, Any]:
    return measured()


@pytest.mark.long
def test_no_rooms_import_each_other_in_a_circle(house: dict[str, Any]) -> None:
    assert house["files"] > 300, "the house was not found"
    assert house["cycles of rooms"] == []


def test_a_class_name_stands_for_one_class_with_three_exceptions_at_most(house: dict[str, Any]) -> None:
    assert len(house["class names of several classes"]) <= 3, house["class names of several classes"]


def test_files_are_chapters(house: dict[str, Any]) -> None:
    assert house["files over 300 lines"] == []
    assert 100 <= house["lines of a file, median"] <= 220


def test_the_measures_see_what_they_are_for(tmp_path: Any) -> None:
    for name, text in {
        "components/a/one.py": "from rlver.components.b.two import Two\nclass Same: ...\n",
        "components/b/two.py": "from rlver.components.a.one import Same as one\nclass Two: ...\nclass Same: ...\n",
        "tasks/alone.py": "",
        "flows/__init__.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = imported(tmp_path)
    assert cycles(graph) == [["components.a", "components.b"]]
    assert list(shared_class_names({one: tmp_path / "components" / where for one, where in (("a", "a/one.py"), ("b", "b/two.py"))})) == [
        "Same"
    ]
    assert closure({"rlver.components.a.one"}, graph) >= {"rlver.components.a.one", "rlver.components.b.two"}


def test_the_map_of_the_house_names_every_room_and_no_other() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tasks, components = (
        part.partition("```")[0] for part in re.findall(r"^(?:tasks|components)/ .*?(?=^components/|```)", text, re.M | re.S)
    )
    (listed,) = re.findall(r"one room a study: ([a-z, \n│]+?)\n   │  \w", tasks)
    assert set(re.findall(r"\w+", listed)) == rooms("tasks/studies")
    assert set(re.findall(r"^   │  (\w+)", tasks, re.M)) == rooms("tasks")
    assert set(re.findall(r"(?:^| ) {5,}([a-z]+) {3,}", components, re.M)) == rooms("components")


def test_no_lines_are_counted_in_tests_of_other_layers() -> None:
    """Counting them doubles the time of plain Python (tests/conftest.py)."""
    assert sys.gettrace() is None


def rooms(folder: str) -> set[str]:
    return {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
