"""The project itself in small: its own code, graph and stages, with numbers that let every stage end in seconds."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from ruamel.yaml import YAML
from small_project import SMALL, weights

from rlver.tasks.graph import dvc

REPOSITORY = Path(__file__).parents[2]
NUMBERS: dict[str, dict[str, Any]] = {
    **SMALL,
    "personas": {"train": 16, "test": 8},
    "train": {**SMALL["train"], "steps": 6},
    "evaluation": {"concurrency": 4, "bootstrap_samples": 200},
    "benchmark": {"tasks": ["rlver_tiny_choice"], "limit": 8},
}
STAGES = (
    "personas",
    "base",
    "train@grpo-think",
    *(f"{stage}@{variant}" for stage in ("converse", "score", "benchmark") for variant in ("base", "grpo-think")),
    "report",
)


def make_whole_project(root: Path) -> None:
    """A DVC project in `root` in which nothing has run. Stages import the code that was copied."""
    root.mkdir(parents=True, exist_ok=True)
    for folder in ("components", "tasks", "imported"):
        shutil.copytree(REPOSITORY / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("dvc.yaml", ".dvcignore", ".gitignore"):
        shutil.copy(REPOSITORY / file, root)
    values = YAML(typ="safe").load((REPOSITORY / "params.yaml").read_text(encoding="utf-8"))
    for section, changes in NUMBERS.items():
        values[section] |= changes
    with (root / "params.yaml").open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump(values, file)
    (root / "params").mkdir()
    for name in ("base", "grpo-think"):
        (root / "params" / f"{name}.yaml").write_text("policy: {thinking: false}\n")
    for command in (("git", "init", "-q", "."), (sys.executable, "-m", "dvc", "init", "-q")):
        subprocess.run(command, cwd=root, check=True, env=surroundings(root))


def surroundings(root: Path) -> dict[str, str]:
    """The environment for `dvc` in `root`: its `python` is ours, and DVC's state is the project's own."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    own = {
        "PATH": path,
        "PYTHONPATH": str(root),
        "DVC_SITE_CACHE_DIR": str(root / ".site"),
        "DVC_NO_ANALYTICS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    return {**os.environ, **own}


def start(root: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """`dvc ARGUMENTS` in a process group of its own; what it says goes to the end of `said.log`."""
    with (root / "said.log").open("ab") as log:
        return subprocess.Popen(
            (sys.executable, "-m", "dvc", *arguments),
            cwd=root,
            env=surroundings(root),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def succeed(root: Path, *arguments: str) -> None:
    """`dvc ARGUMENTS` must end well."""
    status = start(root, *arguments).wait()
    assert status == 0, f"dvc {' '.join(arguments)}: status {status}\n{(root / 'said.log').read_text(errors='replace')[-3000:]}"


def running(root: Path, stage: str) -> subprocess.Popen[bytes]:
    """DVC, at the moment at which it starts the stage's command."""
    log = root / "said.log"
    log.unlink(missing_ok=True)
    process = start(root, "repro", "--single-item", stage)
    while f"Running stage '{stage}'" not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text(errors="replace")
        time.sleep(0.02)
    return process


DATED, DATE = re.compile(r"\d{4}-\d\d-\d\dT[\d.-]+"), "DATE"  # lm-eval's own files have the time in their names, and inside


class Undisturbed(NamedTuple):
    root: Path
    steps: dict[str, dvc.Stage]
    seconds: dict[str, float]
    outputs: dict[str, dict[str, Any]]


def outputs(root: Path, step: dvc.Stage) -> dict[str, Any]:
    """What the stage made, by path: values for what holds times or trained weights, bytes for all the rest."""
    found = {name: None if DATE in name else content for name, content in files(root, step).items()}
    if step.group == "base":
        found = {name: content for name, content in found.items() if not name.endswith(".safetensors")}
    if step.group in ("train", "base"):
        model = next(root / place for place in step.writes if place.startswith("models/"))
        found = {name: without_times(name, content) for name, content in found.items()}
        found |= {f"{model.name}: weights": weights(model)}
    return found


def files(root: Path, step: dvc.Stage) -> dict[str, bytes]:
    """What lies where the stage writes, hidden files too; in the names of lm-eval's own files DATE stands for the time."""
    paths = [path for place in step.writes for path in ([root / place] if (root / place).is_file() else (root / place).rglob("*"))]
    return {DATED.sub(DATE, str(path.relative_to(root))): path.read_bytes() for path in paths if path.is_file()}


def remove_outputs(root: Path, step: dvc.Stage) -> None:
    """As DVC does before a stage runs."""
    for path in step.writes:
        there = root / path
        shutil.rmtree(there) if there.is_dir() else there.unlink(missing_ok=True)


def without_times(name: str, content: bytes) -> Any:
    """Curves as rows of numbers without the seconds; safetensors are compared as weights, dated files by name, all else byte by byte."""
    if name.endswith(".safetensors") or DATE in name:
        return None
    if Path(name).stem not in ("train", "evaluation"):
        return content
    text = content.decode()
    rows = list(csv.DictReader(io.StringIO(text))) if name.endswith(".csv") else [json.loads(line) for line in text.splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def assert_same(found: dict[str, Any], expected: dict[str, Any], when: object) -> None:
    assert found.keys() == expected.keys(), when
    for name, value in found.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(value, expected[name], atol=1e-6, rtol=0, msg=lambda text, name=name: f"{when}: {name}: {text}")
        elif isinstance(value, list):
            for row, other in zip(value, expected[name], strict=True):
                assert {key: number(cell) for key, cell in row.items()} == pytest.approx(
                    {key: number(cell) for key, cell in other.items()}, abs=1e-4, nan_ok=True
                ), f"{when}: {name}"
        else:
            assert value == expected[name], f"{when}: {name}"


def number(cell: Any) -> float:
    return float("nan") if cell in (None, "") else float(cell)
