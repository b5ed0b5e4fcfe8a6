"""Dialogues kept as they end: what an interrupted run leaves is what the next one starts from."""

from __future__ import annotations

from pathlib import Path

from fakes import a_dialogue

from rlver.components.rollout.transcripts import FinishedDialogues


def test_a_rerun_finds_what_was_finished(tmp_path: Path) -> None:
    first = FinishedDialogues(tmp_path / "x.partial", "settings 1")
    assert first.resume() == {}
    for name in "ab":
        first.add(a_dialogue(name, [1, 2]))
    again = FinishedDialogues(tmp_path / "x.partial", "settings 1").resume()
    assert again == {"a": a_dialogue("a", [1, 2]), "b": a_dialogue("b", [1, 2])}


def test_a_line_that_was_cut_off_is_dropped_and_the_file_is_whole_again(tmp_path: Path) -> None:
    path = tmp_path / "x.partial"
    finished = FinishedDialogues(path, "s")
    finished.resume()
    finished.add(a_dialogue("a", [1]))
    whole = path.read_text()
    finished.add(a_dialogue("b", [1]))
    path.write_text(path.read_text()[:-40])
    assert list(finished.resume()) == ["a"]
    assert path.read_text() == whole
    finished.add(a_dialogue("c", [1]))
    assert list(finished.resume()) == ["a", "c"]


def test_what_was_held_with_other_settings_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "x.partial"
    finished = FinishedDialogues(path, "settings 1")
    finished.resume()
    finished.add(a_dialogue("a", [1]))
    assert FinishedDialogues(path, "settings 2").resume() == {}
    assert FinishedDialogues(path, "settings 1").resume() == {}, "the file now belongs to settings 2"


def test_nothing_is_left_when_the_result_is_written(tmp_path: Path) -> None:
    finished = FinishedDialogues(tmp_path / "x.partial", "s")
    finished.resume()
    finished.discard()
    finished.discard()
    assert list(tmp_path.iterdir()) == []
