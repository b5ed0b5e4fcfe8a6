"""Results kept as they end: what an interrupted run leaves is what the next one starts from."""

from __future__ import annotations

from pathlib import Path

from fakes import a_dialogue

from rlver.components.domain.transcript import Dialogue
from rlver.components.domain.unfinished import Unfinished


def unfinished(folder: Path, settings: str = "settings 1") -> Unfinished[Dialogue]:
    return Unfinished(folder / "x", {"fingerprint": settings}, Dialogue)


def test_a_rerun_finds_what_was_finished(tmp_path: Path) -> None:
    first = unfinished(tmp_path)
    assert first.resume() == []
    for name in "ab":
        first.add(a_dialogue(name, [1, 2]))
    assert unfinished(tmp_path).resume() == [a_dialogue("a", [1, 2]), a_dialogue("b", [1, 2])]


def test_a_line_that_was_cut_off_is_dropped_and_the_file_is_whole_again(tmp_path: Path) -> None:
    finished, path = unfinished(tmp_path), tmp_path / "x.partial"
    finished.resume()
    finished.add(a_dialogue("a", [1]))
    whole = path.read_text()
    finished.add(a_dialogue("b", [1]))
    path.write_text(path.read_text()[:-40])
    assert [dialogue.dialogue_id for dialogue in finished.resume()] == ["a"]
    assert path.read_text() == whole
    finished.add(a_dialogue("c", [1]))
    assert [dialogue.dialogue_id for dialogue in finished.resume()] == ["a", "c"]


def test_a_line_with_a_damaged_byte_is_no_whole_line(tmp_path: Path) -> None:
    """It is not read as another text."""
    finished, path = unfinished(tmp_path), tmp_path / "x.partial"
    finished.resume()
    finished.add(a_dialogue("a", [1]))
    finished.add(a_dialogue("b", [1]))
    whole = path.read_bytes()
    where = whole.rindex(b'"assistant": "') + 15
    path.write_bytes(whole[:where] + b"\xe1" + whole[where + 1 :])
    assert [dialogue.dialogue_id for dialogue in finished.resume()] == ["a"]


def test_what_was_made_with_other_settings_is_not_continued(tmp_path: Path) -> None:
    finished = unfinished(tmp_path)
    finished.resume()
    finished.add(a_dialogue("a", [1]))
    assert unfinished(tmp_path, "settings 2").resume() == []
    assert unfinished(tmp_path).resume() == [], "the file now belongs to settings 2"


def test_nothing_is_left_when_the_result_is_written(tmp_path: Path) -> None:
    finished = unfinished(tmp_path)
    finished.resume()
    finished.discard()
    finished.discard()
    assert list(tmp_path.iterdir()) == []
