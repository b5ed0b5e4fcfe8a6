"""The project's own graphs, their commands replaced by one that copies the parameters into every output, or their sum into a metrics file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

FAKE = (
    'sum="{\\"sum\\": $(cat params.yaml params/*.yaml | cksum | cut -d " " -f 1)}"\n'
    'shift; for out; do case "$out" in *.json) mkdir -p "$(dirname "$out")"; echo "$sum" > "$out"; continue;;\n'
    '*.*) f=$out;; *) f=$out/train.jsonl; mkdir -p "$out"; echo x > "$out/test.jsonl";; esac\n'
    'mkdir -p "$(dirname "$f")"; echo "$out" | cat - params.yaml params/*.yaml > "$f"; done\n'
)
POLICIES = ("base-think", "grpo-think-s7", "grpo-think-s8")  # a paper run in small


PAPER = {"paper/pipeline.yaml": "paper/dvc.yaml"}  # all of it, as people have it who copy the file


def copy_graph(repository: Path, root: Path, others: Mapping[str, str] = PAPER) -> None:
    """A DVC project in `root` with the root's pipeline and `others` (file here: file there), the paper run cut down to POLICIES.

    Nothing has run."""
    for ours, theirs in {"dvc.yaml": "dvc.yaml", **others}.items():
        graph = _read(repository / ours)
        assert graph["stages"], f"{ours} has no stages"
        for name, stage in graph["stages"].items():
            _fake(name, stage.get("do", stage), root)
        _write(root / theirs, graph)
    table = _read(repository / "paper" / "runs.yaml")
    _write(root / "paper" / "runs.yaml", {part: {name: rows[name] for name in POLICIES if name in rows} for part, rows in table.items()})
    (root / "fake.sh").write_text(FAKE)
    shutil.copy(repository / "params.yaml", root)
    shutil.copytree(repository / "params", root / "params")
    (root / "imported").mkdir()
    shutil.copy(repository / "imported" / "README.md", root / "imported")
    for command in (("git", "init", "-q", "."), (sys.executable, "-m", "dvc", "init", "-q")):
        subprocess.run(command, cwd=root, check=True)


def set_number(path: Path, dotted: str, value: Any) -> None:
    """Change one value of a YAML file, which must not have it yet."""
    values = _read(path)
    *sections, key = dotted.split(".")
    section = values
    for name in sections:
        section = section[name]
    assert section[key] != value
    section[key] = value
    _write(path, values)


def repro(root: Path, *arguments: str) -> str:
    """What `dvc repro` says."""
    return subprocess.run((sys.executable, "-m", "dvc", "repro", *arguments), cwd=root, capture_output=True, text=True, check=True).stdout


def _fake(name: str, stage: dict[str, Any], root: Path) -> None:
    outputs = [next(iter(out)) if isinstance(out, dict) else out for kind in ("outs", "metrics", "plots") for out in stage.get(kind, ())]
    original = stage["cmd"] if isinstance(stage["cmd"], str) else " ".join(stage["cmd"])
    stage["cmd"] = f"sh fake.sh {name} {' '.join(outputs)}  # {original}"
    for dependency in stage.get("deps", ()):
        if dependency.startswith(("components/", "tasks/")):
            path = root / dependency if "." in Path(dependency).name else root / dependency / "code.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dependency)


def _read(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return values


def _write(path: Path, values: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        YAML().dump(values, file)
