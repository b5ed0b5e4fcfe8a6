"""Outputs under another name: a link to what another process writes, and a pipe that has no path, such as /dev/stdout in a pipeline."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlver.components.domain.files import BadFile, InUse, alone_with, write_text_atomically


@pytest.fixture
def descriptors() -> Path:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("descriptors have no names here")
    return Path("/proc/self/fd")


@pytest.mark.parametrize("linked", [False, True], ids=["itself", "by a link"])
def test_a_pipe_that_only_a_descriptor_names_is_not_written_beside(linked: bool, descriptors: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        place = descriptors / str(writing)
        if linked:
            (tmp_path / "link").symlink_to(place)
            place = tmp_path / "link"
        with pytest.raises(BadFile, match=r"is a device, a pipe or a socket, not a regular file: nothing is written; name a file"):
            write_text_atomically(place, "x")
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(("first", "second"), [("out.jsonl", "link"), ("link", "out.jsonl"), ("link", "folder/link")])
def test_a_link_is_no_second_file_beside_the_one_that_is_being_written(
    first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("link").symlink_to("out.jsonl")
    Path("folder/link").symlink_to("../out.jsonl")
    with alone_with(Path(first)), pytest.raises(InUse, match=f"process {os.getpid()} is writing {second} now"):
        alone_with(Path(second)).__enter__()
    with alone_with(Path(second)):
        pass
    assert not list(tmp_path.rglob("*.lock"))
