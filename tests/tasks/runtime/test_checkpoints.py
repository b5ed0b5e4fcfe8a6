"""A damaged checkpoint is left out, whatever a library says of it; tests/faults/test_training_faults.py has whole trainings."""

from __future__ import annotations

import io
import os
import signal
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rlver.tasks.runtime.checkpoints import STATE, StopsOnSignal, latest_intact_checkpoint

OTHER_METHOD, ENCRYPTED = 10, 8  # where a file's entry in a zip's directory says how it is compressed, and whether it is encrypted


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """Two whole checkpoints."""
    for step in (2, 4):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        torch.save({"state": {0: torch.arange(1000.0)}}, folder / "optimizer.pt")
        torch.save({"last_epoch": step}, folder / "scheduler.pt")
        (folder / STATE).write_text("{}")
    return tmp_path


def in_directory(content: bytearray, at: int, value: int) -> None:
    content[content.index(b"PK\x01\x02") + at] = value


def not_a_pickle(content: bytearray) -> None:
    """A whole zip of the right files whose numbers have no plan."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as old, zipfile.ZipFile(made, "w") as new:
        for entry in old.infolist():
            new.writestr(entry.filename, b"" if entry.filename.endswith("data.pkl") else old.read(entry))
    content[:] = made.getvalue()


def read(file: Path) -> None:
    zipfile.ZipFile(file).testzip()
    torch.load(file, weights_only=True)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda content: in_directory(content, OTHER_METHOD, 99), NotImplementedError),
        (lambda content: in_directory(content, ENCRYPTED, 1), RuntimeError),
        (not_a_pickle, EOFError),
    ],
)
def test_a_checkpoint_that_a_library_cannot_read_is_damaged_and_the_one_before_is_taken(
    damage: Callable[[bytearray], None], says: type[Exception], checkpoints: Path
) -> None:
    assert latest_intact_checkpoint(checkpoints) == (checkpoints / "checkpoint-4", [])
    file = checkpoints / "checkpoint-4" / "optimizer.pt"
    content = bytearray(file.read_bytes())
    damage(content)
    file.write_bytes(content)
    with pytest.raises(says):
        read(file)
    assert latest_intact_checkpoint(checkpoints) == (checkpoints / "checkpoint-2", [checkpoints / "checkpoint-4"])


def test_without_its_moments_a_checkpoint_is_whole_only_where_none_are_wanted(checkpoints: Path) -> None:
    newest, before = (checkpoints / f"checkpoint-{step}" for step in (4, 2))
    optimizer = newest / "optimizer.pt"
    torch.save({"state": {}, "param_groups": [{"lr": 0.1}]}, optimizer)
    assert latest_intact_checkpoint(checkpoints, with_moments=False) == (newest, [])
    assert latest_intact_checkpoint(checkpoints) == (before, [newest]), "the moments would begin at zero, and nobody would say so"
    whole = optimizer.read_bytes()
    for damage in (whole[:-100], b""):
        optimizer.write_bytes(damage)
        assert latest_intact_checkpoint(checkpoints, with_moments=False) == (before, [newest])
    optimizer.unlink()
    assert latest_intact_checkpoint(checkpoints, with_moments=False) == (before, [newest]), "it has the learning rates"


def test_a_terminal_that_is_closed_asks_a_training_to_leave() -> None:
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    leaves = StopsOnSignal(updates_per_batch=1)
    try:
        with leaves.listening():
            for _ in range(2):  # the shell's and the system's
                os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert leaves.asked
