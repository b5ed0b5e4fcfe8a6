"""The project itself in small: its own code, graph and stages, with numbers that let every stage end in seconds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from small_project import SMALL

REPOSITORY = Path(__file__).parents[2]
NUMBERS: dict[str, dict[str, Any]] = {
    **SMALL,
    "personas": {"train": 16, "test": 8},
    "train": {**SMALL["train"], "steps": 6},
    "evaluation": {"concurrency": 4, "bootstrap_samples": 200},
    "benchmark": {"tasks": ["rlver_tiny_choice"], "limit": 8},
}


def make_whole_project(root: Path) -> None:
    """A DVC project in `root` in which nothing has run. Stages import the code that was copied."""
    root.mkdir(parents=True, exist_ok=True)
    for folder in ("components", "tasks"):
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
