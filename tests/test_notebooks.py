"""The notebooks in examples/ run as they stand, cell after cell, and are kept without their output."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAID = {
    "evaluate_any_model.ipynb": ("yes-man.jsonl: 8 dialogues, 32 appraisals: every emotion follows from its replies", "ends at "),
    "train_and_look.ipynb": ("transcripts/grpo-think.jsonl: 8 dialogues", "every emotion follows from its replies", "models/grpo-think/model.safetensors"),
}  # fmt: skip


def cells(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))["cells"]
    return found


def test_every_notebook_is_named_here_and_on_the_page() -> None:
    assert {path.name for path in EXAMPLES.rglob("*.ipynb")} == set(SAID)
    page = (EXAMPLES.parent / "docs" / "tutorial.md").read_text(encoding="utf-8")
    assert all(f"(../examples/{name})" in page for name in SAID)


@pytest.mark.parametrize("name", SAID)
def test_a_notebook_is_kept_without_output(name: str) -> None:
    code = [cell for cell in cells(name) if cell["cell_type"] == "code"]
    assert len(code) > 3
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAID)
def test_a_notebook_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    program = "\n".join("".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "code")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("RLVER_", "MLFLOW_", "PREFECT_"))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "examples",
        env={**environment, "PYTHONPATH": str(EXAMPLES.parent), "MPLBACKEND": "Agg", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for line in SAID[name]:
        assert line in done.stdout, line
