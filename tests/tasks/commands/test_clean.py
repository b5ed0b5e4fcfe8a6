"""`rlver clean`: what goes, what never goes, and that it is shown and asked for first."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest

from rlver.components.domain.files import alone_with, exclusive_lock
from rlver.flows.cli import main
from rlver.tasks.commands.clean import InUse, removable, remove

GOES = (
    "scratch/a/step-15/weights",
    "transcripts/a.jsonl.partial",
    "paper/transcripts/b/vanilla.jsonl.partial",
    "heads.safetensors.partial/made_with.json",
    ".mypy_cache/x",
    "tasks/__pycache__/y.pyc",
)
STAYS = (
    "answers/user.db",
    "mlflow.db",
    "models/a/weights",
    "transcripts/a.jsonl",
    "data/personas/train.jsonl",
    ".venv/pyvenv.cfg",
    ".venv/lib/__pycache__/z.pyc",
    ".venv-openenv/pyvenv.cfg",
    ".venv-openenv/lib/__pycache__/z.pyc",
    "params.yaml",
    "film.partial/made_by.json",
)


@pytest.fixture
def full(toy: Path) -> Path:
    for name in (*GOES, *STAYS):
        (toy / name).parent.mkdir(parents=True, exist_ok=True)
        (toy / name).write_text(json.dumps({"fingerprint": name}) if name.endswith(".partial") else name)
    return toy


def test_only_what_can_be_made_again_goes(full: Path) -> None:
    (full / "film.mp4.partial").write_text("of a browser")
    (full / "deep.partial").write_text("[" * 200_000)
    (full / "chats.jsonl.partial").write_text(json.dumps({"messages": []}))
    sizes = sum((full / name).stat().st_size for name in GOES)
    assert {str(item.path.relative_to(full)) for item in removable(full)} == {
        "scratch",
        "transcripts/a.jsonl.partial",
        "paper/transcripts/b/vanilla.jsonl.partial",
        "heads.safetensors.partial",
        ".mypy_cache",
        "tasks/__pycache__",
    }
    assert remove(full, removable(full)) == sizes
    assert not any((full / name).exists() for name in GOES)
    assert all((full / name).exists() for name in (*STAYS, "film.mp4.partial", "deep.partial", "chats.jsonl.partial"))
    assert removable(full) == []


def test_what_lies_in_a_folder_that_goes_is_counted_once_and_still_guarded(full: Path) -> None:
    unfinished = full / "scratch" / "x.jsonl.partial"
    unfinished.write_text("12345")
    (full / "scratch" / "__pycache__").mkdir()
    found = removable(full)
    assert unfinished not in {item.path for item in found}
    assert sum(item.size for item in found) == sum((full / name).stat().st_size for name in GOES) + 5
    with alone_with(full / "scratch" / "x.jsonl"), pytest.raises(InUse, match=r"is writing .*scratch/x\.jsonl"):
        remove(full, found)
    assert unfinished.exists()
    assert remove(full, found) == sum(item.size for item in found) and not (full / "scratch").exists()


def test_it_is_shown_and_asked_for_first(full: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert main(["clean"]) == 0
    shown = capsys.readouterr().out
    assert "scratch  (unfinished trainings begin anew)" in shown and "nothing was removed" in shown
    assert main(["clean", "--dry-run"]) == 0 and "nothing was removed" in capsys.readouterr().out
    assert all((full / name).exists() for name in GOES)
    assert main(["clean", "--yes"]) == 0 and "MiB free again" in capsys.readouterr().out
    assert not any((full / name).exists() for name in GOES)


def test_nothing_goes_while_a_training_that_was_started_by_hand_is_at_work(full: Path) -> None:
    with exclusive_lock(full / "scratch" / "a"), pytest.raises(InUse, match=r"another training is at work in .*scratch/a"):
        remove(full, removable(full))
    assert all((full / name).exists() for name in GOES)
    remove(full, removable(full))
    assert not any((full / name).exists() for name in GOES)


def test_a_link_is_not_followed(full: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "c.partial").write_text("mine")
    (full / "linked").symlink_to(elsewhere)
    assert "linked" not in {item.path.parts[-2] for item in removable(full)}


def test_nothing_goes_while_a_stage_runs(full: Path) -> None:
    lock = full / ".dvc" / "tmp" / "rwlock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text(json.dumps({"write": {"a": {"pid": os.getpid(), "cmd": "dvc repro"}}}))
    with pytest.raises(InUse, match=f"process {os.getpid()} is at work here"):
        remove(full, removable(full))
    assert all((full / name).exists() for name in GOES)
