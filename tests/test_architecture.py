"""What holds for the repository as a whole: who may import whom, and that files which name each other agree."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from packaging.specifiers import SpecifierSet
from ruamel.yaml import YAML

from benchmarks import house
from rlver.components.settings.settings import Settings
from rlver.tasks.graph import dvc
from rlver.tasks.runtime import fingerprints


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    command = (str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo")
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)


def sources(root: Path) -> list[Path]:
    found = [path for package in ("components", "tasks", "flows") for path in sorted((root / package).rglob("*.py"))]
    assert found
    return found


def stages(root: Path) -> list[tuple[str, dict[str, Any]]]:
    """Module and description of every stage of all pipelines."""
    described = [
        stage.get("do", stage)
        for pipeline in ("dvc.yaml", "paper/pipeline.yaml", "recipes/pipeline.yaml", "pretrained/pipeline.yaml", "bigger/pipeline.yaml")
        for stage in YAML(typ="safe").load((root / pipeline).read_text())["stages"].values()
    ]
    found = [(re.findall(r"-m rlver\.tasks\.stages\.(\w+)", str(stage["cmd"]))[0], stage) for stage in described]
    assert len(found) > 10
    return found


def test_the_import_contracts_hold(repository_root: Path) -> None:
    done = lint_imports(repository_root)
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
    broken = re.findall(r"^(.+) BROKEN$", lint_imports(tmp_path).stdout, flags=re.MULTILINE)
    contracts = re.findall(r'^name = "(.+)"$', (repository_root / "pyproject.toml").read_text(), flags=re.MULTILINE)
    assert sorted(broken) == sorted(name for name in contracts if name != "rlver")


@pytest.mark.long
def test_the_environment_is_read_in_one_place(repository_root: Path) -> None:
    readers = set()
    for path in sources(repository_root):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
            imported = isinstance(node, ast.ImportFrom) and node.module == "os" and {"environ", "getenv"} & {one.name for one in node.names}
            if imported or (named and isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "putenv"}):
                readers.add(path.relative_to(repository_root).as_posix())
    assert readers == {
        "tasks/runtime/environment.py",
        "components/domain/packages.py",
    }  # the second: where fetched weights are kept, no more


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
KINDS = ("rlver.components.domain.kinds", "rlver.components.domain.registry", "rlver.components.users")
SECTIONS = ("rlver.components.policy.section", "rlver.components.training.section")
PLUMBING = tuple(
    f"rlver.tasks.runtime.{name}"
    for name in (
        "checkpoints",
        "connections",
        "environment",
        "fingerprints",
        "kept_secrets",
        "processes",
        "progress",
        "ranks",
        "sealed_record",
        "servers",
        "stage",
        "terminal",
    )
)
MOST_DECLARED = 1.3  # lines of the code a stage declares, as a multiple of the lines it can run


imported = cache(house.imported)


@cache
def runs(stage: str, root: Path) -> set[str]:
    """The modules whose change can change the output of a stage: all it imports, directly or not, but for carriers and plumbing."""
    graph = imported(root)
    asked = [(one, other) for one, other in graph.edges if one.startswith(CARRIERS) and other.startswith((*KINDS, *SECTIONS))]
    graph = nx.restricted_view(graph, [], asked)  # settings ask kinds for names and rooms for their sections, and make none
    loaded = house.closure({f"rlver.tasks.stages.{stage}"}, graph) - set(PLUMBING)
    known = house.modules(root)
    return {
        one for one in loaded if not f"{one}.".startswith(tuple(f"{carrier}." for carrier in CARRIERS)) and known[one].stem != "__init__"
    }


@cache
def read_beside(module: Path) -> set[Path]:
    """The files and folders beside a module that it names in a string: prompts, tables, programs it starts."""
    texts = {node.value for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(node, ast.Constant)}
    names = {text for text in texts if isinstance(text, str) and re.fullmatch(r"[\w.-]+", text)}
    return {module.parent / name for name in names if name.strip(".") and (module.parent / name).exists()}


def declared_code(stage: dict[str, Any]) -> set[str]:
    return {dep for dep in stage["deps"] if dep.startswith(("components/", "tasks/"))}


@pytest.mark.long
def test_every_stage_depends_on_all_code_that_can_change_its_output(repository_root: Path) -> None:
    """What a stage imports, directly or not, and what that reads beside itself, is among its dependencies: else a change leaves a stale result."""
    known = house.modules(repository_root)
    missing = []
    for name, stage in stages(repository_root):
        modules = {known[module] for module in runs(name, repository_root)}
        used = {path.relative_to(repository_root).as_posix() for module in modules for path in (module, *read_beside(module))}
        covered = {path for path in used for dep in declared_code(stage) if f"{path}/".startswith(f"{dep}/")}
        missing += [f"{name}: {path}" for path in sorted(used - covered)]
    assert not missing, "add to deps in dvc.yaml"


def test_no_stage_depends_on_much_code_that_it_never_runs(repository_root: Path) -> None:
    """Else a change that cannot change a result has it made again."""
    known = house.modules(repository_root)
    shares = {}
    for name, stage in stages(repository_root):
        places = [repository_root / dep for dep in declared_code(stage)]
        files = {file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place]) if file.suffix == ".py"}
        can_run = [known[module] for module in runs(name, repository_root)]
        shares[name] = sum(len(file.read_text().splitlines()) for file in files) / sum(
            len(file.read_text().splitlines()) for file in can_run
        )
    assert {name: round(share, 2) for name, share in shares.items() if share > MOST_DECLARED} == {}


def test_code_identity_is_the_same_wherever_it_is_written(repository_root: Path) -> None:
    """A stage depends on the same code in every pipeline, and an interrupted one goes on only with that code."""
    declared: dict[str, set[str]] = {}
    for name, stage in stages(repository_root):
        code = declared_code(stage)
        if "recipes/verl" in stage["deps"]:
            assert code >= set(fingerprints.LENT_TO_VERL)
            code -= set(fingerprints.LENT_TO_VERL)
        assert declared.setdefault(name, code) == code, f"{name} differs between the pipelines"
    assert {name: declared[name] for name in fingerprints.CODE} == {name: set(places) for name, places in fingerprints.CODE.items()}


# What a stage's code reads of the settings and its result does not depend on, and why.
CHANGES_NOTHING = {"endpoint", "tracking"}  # how a server is reached, and where results are shown
NOT_ITS_OWN = {
    "base": {"seed", "simulator", "policy"},  # a recipe's base is a model taken over as it is (base.model)
}


@cache
def sections_read(module: Path) -> set[str]:
    """The sections of the settings that a module names: `settings.train`, `self.settings.train`, `include={"train"}`."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).rpartition(".")[2] == "settings":
            found.add(node.attr)
        elif isinstance(node, ast.keyword) and node.arg == "include" and isinstance(node.value, ast.Set):
            found |= {element.value for element in node.value.elts if isinstance(element, ast.Constant)}
    return found & Settings.model_fields.keys()


def test_every_stage_declares_the_parameters_it_reads_and_no_others(repository_root: Path) -> None:
    known = house.modules(repository_root)
    for name, stage in stages(repository_root):
        named = [part for part in stage["params"] if isinstance(part, str)]
        files = {file: keys for part in stage["params"] if isinstance(part, dict) for file, keys in part.items()}
        by_key = {key for keys in files.values() for key in keys or ()}  # such as base.model of an overlay
        declared = {key.partition(".")[0] for key in (*named, *by_key)}
        read = {section for module in runs(name, repository_root) for section in sections_read(known[module])} - CHANGES_NOTHING
        if "--seed" in str(stage["cmd"]):
            read -= {"seed"}  # the command's own
        assert declared <= read, f"{name} declares and never reads {declared - read}"
        unknown = read - declared
        assert unknown <= NOT_ITS_OWN.get(name, set()), f"{name} reads and does not declare {unknown}"
        assert bool(files) is ("--variant" in str(stage["cmd"])), f"{name}: an overlay is among the parameters where there is a variant"


def test_a_stage_watches_the_same_parts_of_a_section_in_every_pipeline(repository_root: Path) -> None:
    """Where not the whole section is watched, as a base is that is taken over: of `base` then base.kind and base.model."""
    watched: dict[tuple[str, str], set[str]] = {}
    for name, stage in stages(repository_root):
        parts = [[part] if isinstance(part, str) else [key for keys in part.values() for key in keys or ()] for part in stage["params"]]
        keys = {key for part in parts for key in part if "." in key}
        for section in {key.partition(".")[0] for key in keys}:
            of_section = {key for key in keys if key.startswith(f"{section}.")}
            assert watched.setdefault((name, section), of_section) == of_section, f"{name} differs between the pipelines"
    assert watched["base", "base"] == {"base.kind", "base.model"}


OWN_ENVIRONMENT = {"openenv", "verifiers", "verl"}  # extras whose needs do not fit into the lock (docs/adapters.md)


def test_the_lock_pins_what_the_project_asks_for(repository_root: Path) -> None:
    lock = (repository_root / "constraints.txt").read_text()
    pinned = {re.sub(r"[-_.]+", "-", name).lower() for name in re.findall(r"^([A-Za-z0-9._-]+)==", lock, flags=re.MULTILINE)}
    project = tomllib.loads((repository_root / "pyproject.toml").read_text())["project"]
    lines = [
        *project["dependencies"],
        *(line for name, extra in project["optional-dependencies"].items() if name not in OWN_ENVIRONMENT for line in extra),
    ]
    asked = {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", line)[0]).lower() for line in lines} - {"rlver"}
    assert len(asked) > 20 and asked <= pinned, sorted(asked - pinned)
    assert "+" not in lock and "://" not in lock, "a local build or an address installs nowhere else"


def test_the_locked_versions_install_on_the_oldest_python_that_is_promised(repository_root: Path) -> None:
    lock = dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)$", (repository_root / "constraints.txt").read_text(), flags=re.MULTILINE))
    wants = tomllib.loads((repository_root / "pyproject.toml").read_text())["project"]["requires-python"]
    oldest = wants.removeprefix(">=").split(",")[0] + ".0"  # Debian 12 comes with 3.11.2
    here = {one.name: one.metadata for one in distributions() if lock.get(one.name) == one.version}
    needs = {name: said["Requires-Python"] for name, said in here.items() if "Requires-Python" in said}
    assert len(needs) > 100
    assert not {name: version for name, version in needs.items() if oldest not in SpecifierSet(version)}


def test_ci_runs_exactly_make_test(repository_root: Path) -> None:
    lines = (repository_root / ".ci" / "run").read_text().splitlines()
    assert lines[-1] == "make test" and sum("make" in line for line in lines) == 1
    assert "export CI=true" in lines


def test_ci_leaves_no_test_out_that_runs_by_default(repository_root: Path) -> None:
    def command(*more: str) -> str:
        asked = ["make", "-n", "-o", "check", "test", *more]
        env = {name: value for name, value in os.environ.items() if name not in {"CI", "MAKEFLAGS"}}
        return subprocess.run(asked, cwd=repository_root, env=env, capture_output=True, text=True, check=True).stdout

    by_default = re.search(
        r"-m '([^']+)'", tomllib.loads((repository_root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    )
    assert by_default and f"-m 'not long and {by_default[1]}'" in command()
    assert "-n 2" in command("CI=true") and " -m '" not in command("CI=true")


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
