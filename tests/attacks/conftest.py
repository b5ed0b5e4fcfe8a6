"""What several attacks are made on: the page of `rlver blind`, and a home of Prefect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from announced import ROOT
from blind_page import client
from blind_study import both, comparing
from ruamel.yaml import YAML
from starlette.testclient import TestClient

from rlver.components.domain.files import write_jsonl
from rlver.tasks.studies.blind.answer_file import AnswerFile
from rlver.tasks.studies.blind.page import Page


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """PREFECT_HOME of this test; what `prepare` sets is undone afterwards."""
    for name in ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING", "PREFECT_SERVER_CORS_ALLOWED_ORIGINS"):
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    return tmp_path / "prefect"


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[AnswerFile]:
    with AnswerFile(tmp_path / "answers.jsonl", lambda line: None) as file:
        yield file


@pytest.fixture
def page(answers: AnswerFile) -> TestClient:
    return client(Page(comparing(answers), None, None, ()))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two policies' transcripts and the parameters, for `rlver blind`."""
    for name, dialogues in zip(("one", "other"), both(8), strict=True):
        write_jsonl(tmp_path / f"{name}.jsonl", [dialogue.model_dump(mode="json") for dialogue in dialogues])
    values = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    return tmp_path
