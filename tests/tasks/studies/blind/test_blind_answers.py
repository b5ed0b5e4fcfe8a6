"""Answers: on the disk before anybody hears of it, never twice, and readable after anything that can happen to a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from blind_study import comparing

from rlver.components.domain.files import BadFile
from rlver.tasks.studies.blind.answer_file import AnswerFile, NotSaved
from rlver.tasks.studies.blind.answers import Choice, PersonSaid, Study, read_answers
from rlver.tasks.studies.blind.comparing import NoSuchPlace, other
from rlver.tasks.studies.blind.report import judged


def choices(path: Path) -> list[Choice]:
    return [row for row in read_answers(path).rows if isinstance(row, Choice)]


def test_an_answer_is_in_the_file_before_choose_returns(answers: AnswerFile) -> None:
    study = comparing(answers)
    order = study.order("ann")
    assert study.choose("ann", 0, "1" * 32, "left", 3, "warmer", 4.5) == {"total": 6, "answered": 1, "next": 1}
    (row,) = choices(answers.path)
    assert (row.rater, row.pair_id, row.left, row.preference) == ("ann", order[0].pair.pair_id, order[0].left, order[0].left)
    assert (row.confidence, row.reason, row.seconds) == (3, "warmer", 4.5)


@pytest.mark.parametrize("choice", ["left", "right", "tie"])
def test_what_stood_on_a_side_is_what_is_preferred(answers: AnswerFile, choice: str) -> None:
    study = comparing(answers)
    for place, placement in enumerate(study.order("ann")):
        study.choose("ann", place, f"{place:032x}", choice, 1, "", None)
        expected = {"left": placement.left, "right": other(placement.left), "tie": "tie"}[choice]
        assert choices(answers.path)[place].preference == expected
        left = study.view("ann", place)["left"][0]["reply"]
        assert left.startswith(f"reply {placement.left}")
        assert study.view("ann", place)["answer"] == {"choice": choice, "confidence": 1, "reason": ""}


def test_the_same_answer_sent_twice_is_kept_once(answers: AnswerFile) -> None:
    study = comparing(answers)
    for _ in range(3):
        study.choose("ann", 2, "1" * 32, "left", 3, "", None)
    assert len(choices(answers.path)) == 1


def test_a_changed_answer_is_added_and_the_last_one_counts(answers: AnswerFile) -> None:
    study = comparing(answers)
    study.choose("ann", 2, "1" * 32, "left", 3, "", None)
    study.choose("ann", 2, "2" * 32, "tie", 1, "on second thought", None)
    assert len(choices(answers.path)) == 2
    counted = judged(read_answers(answers.path).rows)
    assert [(choice.preference, choice.reason) for choice in counted.choices] == [("tie", "on second thought")]
    assert counted.revised == 1
    assert study.progress("ann") == {"total": 6, "answered": 1, "next": 0}


def test_people_go_on_where_they_were_after_a_restart(tmp_path: Path) -> None:
    with AnswerFile(tmp_path / "a.jsonl", print) as file:
        study = comparing(file)
        for place in (0, 1, 3):
            study.choose("ann", place, f"{place:032x}", "left", 2, "", None)
        before = [study.view("ann", place) for place in range(6)]
    with AnswerFile(tmp_path / "a.jsonl", print) as file:
        study = comparing(file)
        assert study.progress("ann") == {"total": 6, "answered": 3, "next": 2}
        assert [study.view("ann", place) for place in range(6)] == before
        study.choose("ann", 3, f"{3:032x}", "left", 2, "", None)  # sent again by a page that never heard back
        assert study.progress("bo") == {"total": 6, "answered": 0, "next": 0}
    assert len(choices(tmp_path / "a.jsonl")) == 3


@pytest.mark.parametrize("cut", [1, 2, 40, 150])
def test_a_line_that_was_cut_off_is_told_and_goes(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.jsonl"
    with AnswerFile(path, print) as file:
        study = comparing(file)
        study.choose("ann", 0, "0" * 32, "left", 2, "", None)
        whole = path.stat().st_size
        study.choose("ann", 1, "1" * 32, "left", 2, "", None)
    os.truncate(path, path.stat().st_size - cut)
    said: list[str] = []
    assert read_answers(path).cut_off_bytes == path.stat().st_size - whole
    with AnswerFile(path, said.append) as file:
        assert comparing(file).progress("ann")["answered"] == 1
        comparing(file).choose("ann", 1, "1" * 32, "right", 2, "", None)
    assert len(said) == 1 and "cut off" in said[0]
    assert [choice.answer_id[0] for choice in choices(path)] == ["0", "1"]


def test_a_damaged_line_before_a_cut_off_one_is_named_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with AnswerFile(path, print) as file:
        comparing(file).choose("ann", 0, "0" * 32, "left", 2, "", None)
    damaged = path.read_bytes() + b'{"kind": "choice"; "rater": "ann"}\n{"kind": "cho'
    path.write_bytes(damaged)
    with pytest.raises(BadFile, match="not an answer"), AnswerFile(path, print):
        pass
    assert path.read_bytes() == damaged


def test_zeros_that_a_lost_power_leaves_are_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with AnswerFile(path, print) as file:
        comparing(file).choose("ann", 0, "0" * 32, "left", 2, "", None)
    path.write_bytes(path.read_bytes() + b"\0" * 100 + b"\n")
    assert read_answers(path).cut_off_bytes == 101 and len(choices(path)) == 1


def test_a_bad_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with AnswerFile(path, print) as file:
        study = comparing(file)
        study.choose("ann", 0, "0" * 32, "left", 2, "", None)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{}", lines[1], ""]))
    with pytest.raises(BadFile, match=r"a\.jsonl:2: not an answer"):
        read_answers(path)


def test_a_file_of_another_comparison_is_not_continued(tmp_path: Path) -> None:
    with AnswerFile(tmp_path / "a.jsonl", print) as file:
        comparing(file)
    with AnswerFile(tmp_path / "a.jsonl", print) as file:
        with pytest.raises(ValueError, match=r"overlap was 0\.5 and is 0\.25"):
            comparing(file, overlap=0.25)
        with pytest.raises(ValueError, match="the dialogues are others"):
            comparing(file, personas=7)


def test_two_servers_cannot_write_one_file(tmp_path: Path, answers: AnswerFile) -> None:
    with pytest.raises(ValueError, match="another `rlver blind` writes it"), AnswerFile(answers.path, print):
        pass


def test_the_lock_of_a_killed_process_is_gone(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom rlver.tasks.studies.blind.answer_file import AnswerFile\n"
        "AnswerFile(Path(sys.argv[1]), print).__enter__()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run((sys.executable, "-c", script, str(tmp_path / "a.jsonl")), check=False)
    assert done.returncode == -9
    with AnswerFile(tmp_path / "a.jsonl", print) as file:
        assert file.rows == []


def test_an_answer_that_the_disk_refuses_is_not_half_there(answers: AnswerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    study = comparing(answers)
    study.choose("ann", 0, "0" * 32, "left", 2, "", None)
    before, write = answers.path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda file, line: write(file, line[:20]))  # as on a disk that is full
    with pytest.raises(NotSaved, match="20 of"):
        study.choose("ann", 1, "1" * 32, "left", 2, "", None)
    monkeypatch.undo()
    assert answers.path.read_bytes() == before
    assert study.progress("ann")["answered"] == 1
    study.choose("ann", 1, "1" * 32, "left", 2, "", None)
    assert len(choices(answers.path)) == 2


def test_the_first_line_names_the_pairs_and_nothing_is_for_others_to_read(answers: AnswerFile) -> None:
    comparing(answers)
    (study,) = read_answers(answers.path).rows
    assert isinstance(study, Study) and len(study.pairs) == 8
    assert [(pair.emotion_a, pair.emotion_b) for pair in study.pairs] == [(42, 44)] * 8
    assert answers.path.stat().st_mode & 0o077 == 0


def test_a_place_that_is_not_there(answers: AnswerFile) -> None:
    for place in (-1, 6):
        with pytest.raises(NoSuchPlace):
            comparing(answers).view("ann", place)


def test_an_answer_to_an_unknown_pair_is_told(answers: AnswerFile) -> None:
    comparing(answers).choose("ann", 0, "0" * 32, "left", 2, "", None)
    rows = [row for row in read_answers(answers.path).rows if isinstance(row, Choice)]
    with pytest.raises(BadFile, match="not in the file's first line"):
        judged(rows)


def test_letters_of_all_languages_survive(answers: AnswerFile) -> None:
    answers.add(PersonSaid(at="t", talk_id="1", message_id="2", text="心里很难受 \u2028 é"))
    assert json.loads(answers.path.read_text().split("\n")[-2])["text"] == "心里很难受 \u2028 é"
    assert read_answers(answers.path).rows == answers.rows
