"""What a file that is read may be: packed, of the other kind, a pipe, named twice."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from file_project import error_of, file_project

from rlver.components.domain.files import write_jsonl
from rlver.components.rollout.transcripts import load_transcripts
from rlver.flows.cli import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return file_project(tmp_path, monkeypatch)


def test_packed_transcripts_are_read_and_a_pipe_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.jsonl.gz").write_bytes(gzip.compress(Path("t.jsonl").read_bytes()))
    assert load_transcripts(Path("t.jsonl.gz")) == load_transcripts(Path("t.jsonl"))
    Path("bad.jsonl.gz").write_bytes(gzip.compress(b'{"dialogue_id": "x"}\n'))
    assert "bad.jsonl.gz:1: " in error_of(capsys, "score", "bad.jsonl.gz")
    os.mkfifo("pipe")
    assert "pipe: a pipe or a device, which cannot be read twice" in error_of(capsys, "score", "pipe")


def test_a_file_of_the_other_kind_is_named_in_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people, dialogues = "data/personas/test.jsonl", "t.jsonl"
    assert (
        error_of(capsys, "score", people)
        == f"error: {people}: these are personas, not dialogues; `rlver converse` holds dialogues with them"
    )
    assert f"{dialogues}: these are dialogues, not personas" in error_of(capsys, "score", dialogues, "--personas", dialogues)
    assert "these are personas, not dialogues; name them with --personas" in error_of(capsys, "distil", people, "-o", "d")


def test_a_file_is_put_together_with_itself_by_no_command(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("copy.jsonl").write_bytes(Path("t.jsonl").read_bytes())
    os.link("t.jsonl", "same.jsonl")
    assert "t.jsonl is named twice" in error_of(capsys, "distil", "t.jsonl", "t.jsonl", "-o", "d")
    assert "t.jsonl and same.jsonl are the same file" in error_of(capsys, "blind", "t.jsonl", "same.jsonl")
    rows = [json.loads(line) for line in Path("t.jsonl").read_text().splitlines()]
    write_jsonl(Path("other.jsonl"), [{**row, "simulator": {**row["simulator"], "version": "another"}} for row in rows])
    assert main(["distil", "t.jsonl", "other.jsonl", "-o", "two"]) == 0, "felt by another user it is one more"
    assert "8 dialogues are there twice" in error_of(capsys, "distil", "t.jsonl", "copy.jsonl", "-o", "d")
    assert "t.jsonl is named twice" in error_of(capsys, "fluency", "t.jsonl", "t.jsonl", "--model", "m")
    assert not Path("blind").exists() and not Path("d").exists()
