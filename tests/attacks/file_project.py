"""A project with transcripts, dialogues and personas, and what a command says when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import people, scripted_dialogues
from ruamel.yaml import YAML

from rlver.components.domain.files import write_jsonl
from rlver.flows.cli import main

REPOSITORY = Path(__file__).parents[2]
SURROUNDINGS = {**os.environ, "PYTHONPATH": str(REPOSITORY)}


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a command says when it fails."""
    assert main([str(argument) for argument in arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and "(a bug;" not in line, line
    return line


def rlver(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "rlver.flows.cli", *arguments)
    return subprocess.run(command, cwd=folder, env=SURROUNDINGS, capture_output=True, text=True, check=False)


def file_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Transcripts, recorded dialogues, personas and short parameters; the current directory."""
    values = YAML(typ="safe").load((REPOSITORY / "params.yaml").read_text(encoding="utf-8"))
    for section, changes in {
        "simulator": {"max_turns": 3},
        "policy": {"thinking": False, "max_reply_tokens": 6, "max_context_tokens": 900},
        "evaluation": {"concurrency": 3, "repeats": 1, "bootstrap_samples": 100},
    }.items():
        values[section] |= changes
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    write_jsonl(tmp_path / "t.jsonl", [dialogue.model_dump(mode="json") for dialogue in scripted_dialogues()])
    (tmp_path / "transcripts").mkdir()
    shutil.copy(tmp_path / "t.jsonl", tmp_path / "transcripts" / "base.jsonl")
    for name, split in (("test", people()[1]), ("train", people()[0])):
        write_jsonl(tmp_path / "data" / "personas" / f"{name}.jsonl", [persona.model_dump(mode="json") for persona in split])
    monkeypatch.chdir(tmp_path)
    return tmp_path
