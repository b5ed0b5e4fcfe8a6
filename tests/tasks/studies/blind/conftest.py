"""Two transcripts and a file of answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from announced import ROOT
from blind_study import both
from ruamel.yaml import YAML

from rlver.components.domain.files import write_jsonl
from rlver.tasks.studies.blind.answer_file import AnswerFile


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


@pytest.fixture
def project(tmp_path: Path, transcripts: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight personas on both sides, all of them for everybody; the current directory."""
    values = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    values["evaluation"]["bootstrap_samples"] = 200
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path
