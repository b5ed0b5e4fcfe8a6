"""Files of dialogues, and what the commands say of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from rlver.components.domain.files import write_jsonl
from rlver.components.domain.transcript import Dialogue
from rlver.flows.cli import main


def write(path: Path, dialogues: list[Dialogue]) -> Path:
    write_jsonl(path, [dialogue.model_dump(mode="json") for dialogue in dialogues])
    return path


def rules_of_ten(project: Path) -> None:
    """The parameters under which `scripted_dialogues` are held."""
    path = project / "params.yaml"
    values = YAML(typ="safe").load(path.read_text())
    values["simulator"]["max_turns"] = 10
    YAML(typ="safe").dump(values, path)


def complaint(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line a command says when it fails."""
    assert main([str(argument) for argument in arguments]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith(("█", "░"))]
    assert len(lines) == 1 and lines[0].startswith("error: "), lines
    return lines[0]
