"""Dialogues that strangers read: mixed and unnamed, then counted; no mark may be missing."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from report_run import make_dialogue, make_failed

from benchmarks.strangers import counts, drawn, marks_of, more_or_less, page, sheet_and_key
from rlver.components.domain.files import write_jsonl


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Transcripts of two policies."""
    for policy in ("trained", "other"):
        dialogues = [make_dialogue(policy, number, 0.5, Random(number)) for number in range(4)]
        write_jsonl(tmp_path / f"{policy}.jsonl", [dialogue.model_dump(mode="json") for dialogue in dialogues])
    return [tmp_path / "trained.jsonl", tmp_path / "other.jsonl"]


def test_the_same_dialogues_are_drawn_from_any_order_and_a_failed_one_can_be():
    dialogues = [make_dialogue("p", number, 0.5, Random(number)) for number in range(9)]
    first = [dialogue.dialogue_id for dialogue in drawn(dialogues, 4, seed=7)]
    assert len(set(first)) == 4
    assert first == [dialogue.dialogue_id for dialogue in drawn(dialogues[::-1], 4, seed=7)]
    assert drawn([make_failed("p", 1)], 4, seed=7) != []


def test_the_sheet_names_no_policy_and_the_page_shows_the_first_file_alone(files: list[Path], tmp_path: Path):
    sheet, key = sheet_and_key(files, count=2, seed=7)
    assert sheet.count("## D") == 4
    assert "trained" not in sheet.replace("## ", "")
    (tmp_path / "key.tsv").write_text(key)
    replies = [line.split(":")[0][2:] for line in sheet.splitlines() if line.startswith("R D")]
    careful, kind = (dict.fromkeys(replies, (True, answers)) for answers in (False, True))
    lines = list(page(tmp_path, [careful, kind]))
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| `trained`", "| `other`"]
    assert sum(line.startswith("## ") for line in lines) == 2
    assert any(line.startswith("Replies of a dialogue that answer, `trained` less `other`: +0 points") for line in lines)
    assert any(line.endswith("| no / yes |") for line in lines)


def test_counts_tell_what_all_found_from_what_one_found_and_what_each_earned():
    one = {"D01.1": (True, True), "D01.2": (True, False), "D01.3": (False, False), "D01.4": (True, True)}
    two = {"D01.1": (True, False), "D01.2": (True, False), "D01.3": (True, False), "D01.4": (True, True)}
    changes = {"D01.1": 9, "D01.2": -2, "D01.3": -5, "D01.4": 4}
    assert list(counts({"trained": changes}, [one, two]))[2] == "| `trained` | 4 | 0 (1) | 2 (3) | 75% | +4.0, -3.5 |"
    assert list(counts({"trained": {"D01.1": 9, "D01.3": None}}, [one, two]))[2].endswith("| -, - |"), "nobody agrees, nobody knows"


def test_the_difference_is_over_personas_that_both_talked_with():
    more = {"anna": [1.0], "ben": [0.75], "cleo": [0.5], "alone": [0.0]}
    less = {"anna": [0.5], "ben": [0.25], "cleo": [0.0], "other": [1.0]}
    told, _ = more_or_less(("trained", more), ("other", less))
    assert told.startswith("Replies of a dialogue that answer, `trained` less `other`: +50 points [") and told.endswith("over 3 personas.")
    assert not list(more_or_less(("trained", {"anna": [1.0]}), ("other", less))), "one persona is no comparison"


def test_a_missing_mark_a_second_one_and_another_line_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"1 marks are missing, the first of D01\.2"):
        list(counts({"trained": {"D01.1": 1, "D01.2": 1}}, [{"D01.1": (True, True)}]))
    for text in ("D01.1 yes no\nD01.1 yes yes\n", "D01.1 yes\n"):
        (tmp_path / "marks.txt").write_text(text)
        with pytest.raises(ValueError, match="not a mark, or a second one"):
            marks_of(tmp_path / "marks.txt")


def test_a_reply_that_is_not_english_does_not_answer(tmp_path: Path):
    (tmp_path / "marks.txt").write_text("D01.1 no yes\n")
    assert marks_of(tmp_path / "marks.txt") == {"D01.1": (False, False)}
