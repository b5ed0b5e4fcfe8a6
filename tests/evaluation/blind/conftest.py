"""Two transcripts and a file of answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from blind_study import both

from components.files import write_jsonl
from tasks.blind.answer_file import AnswerFile


@pytest.fixture
def transcripts(tmp_path: Path) -> tuple[Path, Path]:
    """Eight personas on both sides."""
    paths = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    for path, dialogues in zip(paths, both(8), strict=True):
        write_jsonl(path, [dialogue.model_dump(mode="json") for dialogue in dialogues])
    return paths


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[AnswerFile]:
    with AnswerFile(tmp_path / "answers.jsonl", print) as file:
        yield file
