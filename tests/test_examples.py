"""The examples and the tour of the tutorial, run as they stand on the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from documents import run_as_typed, section, shell_blocks

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Users with a story of your own", "my-personas.jsonl: 8 personas, all valid"),
        (
            "Somebody else's chat logs",
            "appraised.jsonl: 4 dialogues, 8 appraisals: every emotion follows from its replies; of 4 only the appraisals were derived: "
            "the user's words, where they begin and why they end are as recorded",
        ),
        ("A policy behind an endpoint", "yes-man.jsonl: 8 dialogues, 32 appraisals: every emotion follows from its replies"),
        ("A variant of your own", "train.learning_rate: 0.0008 -> 0.0004"),
    ],
)
def test_an_example_runs_as_it_stands_on_the_page(title: str, said: str, tmp_path: Path, repository_root: Path) -> None:
    blocks = shell_blocks(section(repository_root / "docs" / "tutorial.md", title))
    assert said in run_as_typed(blocks, tmp_path / "project").splitlines()


def test_the_tour_says_what_the_tutorial_shows(tmp_path: Path, repository_root: Path) -> None:
    """The page shows the output of each command in the block below it; every line of these must come, in this order."""
    tour = section(repository_root / "docs" / "tutorial.md", "The five-minute tour")
    shown = [line for part in tour.split("```text\n")[1:] for line in part.partition("```")[0].splitlines() if line.strip() and line != "…"]
    assert len(shown) > 20
    said = iter(run_as_typed(shell_blocks(tour), tmp_path / "project").splitlines())
    for line in shown:
        assert line in said, line  # goes on from where the line before was found
