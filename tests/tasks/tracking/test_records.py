"""The stamp of a file or folder that a stage left."""

from __future__ import annotations

from pathlib import Path

from rlver.tasks.tracking.records import File, stamp, stamped


def test_a_stamp_changes_with_what_it_is_of_and_a_file_that_went_spoils_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "weights").write_text("1")
    before, kept = stamp(folder), stamped(folder, "models", "abc")
    (folder / "gone").symlink_to(tmp_path / "nowhere")  # as a file that goes while the folder is listed
    assert stamp(folder) == before and kept.is_unchanged
    (folder / "weights").write_text("12")
    assert stamp(folder) != before and not kept.is_unchanged
    assert stamp(tmp_path / "nowhere") == "" and not File(tmp_path / "nowhere", "nowhere", "abc").is_unchanged
