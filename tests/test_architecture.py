"""What holds for the repository as a whole: who may import whom, and that files which name each other agree."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from benchmarks import house
from rlver.components.settings.settings import load_settings
from rlver.tasks.graph import dvc


def lint_imports(root: Path, repository: Path) -> subprocess.CompletedProcess[str]:
    command = ("sh", str(repository / ".ci" / "import-contracts"), sys.executable, str(root))
    return subprocess.run(command, capture_output=True, text=True, check=False)


def sources(root: Path) -> list[Path]:
    found = [path for package in ("components", "tasks", "flows") for path in sorted((root / package).rglob("*.py"))]
    assert found
    return found


def stages(root: Path) -> list[tuple[str, dict[str, Any]]]:
    """Module and description of every stage of all pipelines."""
    described = [
        stage.get("do", stage)
        for pipeline in ("dvc.yaml", "paper/dvc.yaml", "recipes/dvc.yaml")
        for stage in YAML(typ="safe").load((root / pipeline).read_text())["stages"].values()
    ]
    found = [(re.findall(r"-m rlver\.tasks\.stages\.(\w+)", str(stage["cmd"]))[0], stage) for stage in described]
    assert len(found) > 10
    return found


def test_the_import_contracts_hold(repository_root: Path) -> None:
    done = lint_imports(repository_root, repository_root)
    assert done.returncode == 0, done.stdout


def test_the_import_contracts_can_break(repository_root: Path, tmp_path: Path) -> None:
    """A contract that never breaks proves nothing: one forbidden import for each."""
    shutil.copytree(repository_root / "rlver", tmp_path / "rlver", ignore=shutil.ignore_patterns("__pycache__", "*.yaml", "*.html", "*.j2"))
    shutil.copy(repository_root / "pyproject.toml", tmp_path)
    for path, line in (
        ("components/domain/files.py", "import rlver.tasks.files_of_others"),
        ("components/domain/emotion.py", "import torch"),
        ("components/endpoint/__init__.py", "import rlver.components.settings"),
        ("components/settings/settings.py", "import mlflow"),
        ("tasks/stages/score.py", "import prefect"),
        ("tasks/runtime/policies.py", "import dvc, lm_eval, trl, rlver.tasks.commands.chat"),
    ):
        with (tmp_path / "rlver" / path).open("a") as file:
            file.write(f"\n{line}\n")
    (tmp_path / "rlver" / "tasks" / "files_of_others.py").touch()
    broken = re.findall(r"^(.+) BROKEN$", lint_imports(tmp_path, repository_root).stdout, flags=re.MULTILINE)
    contracts = re.findall(r'^name = "(.+)"$', (repository_root / "pyproject.toml").read_text(), flags=re.MULTILINE)
    assert sorted(broken) == sorted(name for name in contracts if name != "rlver")


def test_the_environment_is_read_in_one_place(repository_root: Path) -> None:
    readers = set()
    for path in sources(repository_root):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
            imported = isinstance(node, ast.ImportFrom) and node.module == "os" and {"environ", "getenv"} & {one.name for one in node.names}
            if imported or (named and isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "putenv"}):
                readers.add(path.relative_to(repository_root).as_posix())
    assert readers == {"tasks/runtime/environment.py"}


def test_every_overlay_loads(repository_root: Path) -> None:
    overlays = sorted((repository_root / "params").glob("*.yaml"))
    assert overlays, "params/ is empty"
    for overlay in overlays:
        load_settings(repository_root / "params.yaml", overlay.stem)


def test_the_graph_loads_and_names_only_what_exists(repository_root: Path) -> None:
    steps = dvc.plan(repository_root)
    assert steps[0].name == "personas" and steps[-1].name == "report"
    overlays = {path.stem for path in (repository_root / "params").glob("*.yaml")}
    assert {step.variant for step in steps if step.variant} <= overlays
    for module, _ in stages(repository_root):
        assert (repository_root / "tasks" / "stages" / f"{module}.py").is_file(), module
    code = {dep for _, stage in stages(repository_root) for dep in stage.get("deps", ()) if dep.startswith(("components/", "tasks/"))}
    assert code and all((repository_root / dep).exists() for dep in code), sorted(code)


# Code that carries values without deciding them: settings, and a language model's answers (what is asked, and how an answer is read, stands
# in the user).
CARRIERS = ("rlver.components.endpoint", "rlver.components.settings")
PLUMBING = tuple(
    f"rlver.tasks.runtime.{name}"
    for name in ("checkpoints", "connections", "environment", "fingerprints", "processes", "progress", "servers", "stage", "terminal")
)


def test_every_stage_depends_on_all_code_that_can_change_its_output(repository_root: Path) -> None:
    """What a stage imports, directly or not, is among its dependencies: else a change there leaves a stale result."""
    graph = house.imported(repository_root)
    missing = []
    for name, stage in stages(repository_root):
        modules = house.closure({f"rlver.tasks.stages.{name}"}, graph) - set(PLUMBING)
        used = {
            module.removeprefix("rlver.").replace(".", "/")
            for module in modules
            if not any(f"{module}.".startswith(f"{carrier}.") for carrier in CARRIERS) and not house.is_package(module, repository_root)
        }
        covered = {path for path in used for dep in stage["deps"] if f"{path}/".startswith(f"{dep.removesuffix('.py')}/")}
        missing += [f"{name}: {path}" for path in sorted(used - covered)]
    assert not missing, "add to deps in dvc.yaml"


def test_the_lock_pins_what_the_project_asks_for(repository_root: Path) -> None:
    lock = (repository_root / "constraints.txt").read_text()
    pinned = {re.sub(r"[-_.]+", "-", name).lower() for name in re.findall(r"^([A-Za-z0-9._-]+)==", lock, flags=re.MULTILINE)}
    project = (repository_root / "pyproject.toml").read_text().partition("[project.scripts]")[0].partition("dependencies = [")[2]
    asked = {re.sub(r"[-_.]+", "-", name).lower() for name in re.findall(r'^\s+"([A-Za-z0-9._-]+)', project, flags=re.MULTILINE)}
    assert len(asked) > 20 and asked <= pinned, sorted(asked - pinned)
    assert "+" not in lock and "://" not in lock, "a local build or an address installs nowhere else"


def test_ci_runs_exactly_make_test(repository_root: Path) -> None:
    lines = (repository_root / ".ci" / "run").read_text().splitlines()
    assert lines[-1] == "make test" and sum("make" in line for line in lines) == 1


def test_the_readme_names_only_commands_that_exist(repository_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rlver.flows.cli import main

    text = (repository_root / "README.md").read_text()
    targets = set(re.findall(r"^(?:\$ )?make ([a-z]+)", text, flags=re.MULTILINE))
    assert {"run", "test"} <= targets, "the README's two commands"
    makefile = (repository_root / "Makefile").read_text()
    assert not [target for target in targets if not re.search(rf"^{target}:", makefile, flags=re.MULTILINE)]
    commands = set(
        re.findall(
            r"rlver ((?:personas )?[a-z-]+)", "\n".join(re.findall(r"`[^`\n]+`|^\s*(?:\$ )?(?:\.venv/bin/)?rlver .*$", text, re.MULTILINE))
        )
    )
    assert commands, "the README shows no rlver command"
    for command in sorted(commands):
        assert main([*command.split(), "--help"]) == 0, command
    capsys.readouterr()
