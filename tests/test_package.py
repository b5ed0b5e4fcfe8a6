"""What `pip install` gives: one top-level name, declared dependencies, a light base, and a wheel that needs no checkout."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from benchmarks.house import modules
from rlver.tasks.commands.workspace import FILES, TEMPLATES
from rlver.tasks.runtime import installed

BASE = "base"
INSTALLED = metadata.packages_distributions()  # what brings a module
BASE_NEEDS = (
    "rlver.flows.cli",
    "rlver.tasks.commands.workspace",
    "rlver.components.personas.generator",
    "rlver.components.rollout.episode",
    "rlver.components.users.scripted.simulator",
)
# Declared, and imported by no line of ours.
FOR_OTHERS = {
    "accelerate": "TRL's trainer, and transformers to read a GGUF file",
    "fastapi": "a bound for Prefect",
    "gguf": "transformers' reader of GGUF files",
    "immutabledict": "lm-eval's ifeval",
    "langdetect": "lm-eval's ifeval",
    "peft": "named in strings, too",
    "ruamel-yaml-clib": "the fast parser of ruamel.yaml",
}
# Imported where it is installed, and by one module: its needs do not fit into our lock (docs/adapters.md).
ELSEWHERE = {name: f"rlver.components.adapters.{name}" for name in ("openenv", "verifiers", "verl")}  # the extras have the libraries' names
DIALOGUE = """
import time
began = time.process_time()
import asyncio
import rlver
from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.protocols import Reply, Tokens
from rlver.components.domain.thinking import Said
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.rollout.episode import Job, run_episodes
from rlver.components.users.scripted.simulator import ScriptedSimulator

class Supporter:
    name = "always the same"
    tokens = Tokens()
    def session(self, *ids): return self
    def close(self): pass
    async def reply(self, user): return Reply(Said(None, "You did well, and it hurts that nobody saw it.", True), False, None, None)

persona = compose_personas(load_library(), 7, 8, 8)[0][0]
held = asyncio.run(run_episodes([Job("one", persona, 7)], ScriptedSimulator("vanilla"), Supporter(), EmotionRules(), 1))
print(held[0].dialogue.emotion_final, time.process_time() - began)
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def declared(repository_root: Path) -> dict[str, set[str]]:
    """The distributions of each extra, those of the extras inside it included; and of the base, which all hold."""
    project = tomllib.loads((repository_root / "pyproject.toml").read_text())["project"]
    lines = {BASE: project["dependencies"], **project["optional-dependencies"]}

    def of(extra: str) -> set[str]:
        found = set[str]()
        for line in lines[extra]:
            name, inner = re.findall(r"^([\w.-]+)(?:\[([\w,-]+)\])?", line)[0]
            found |= set().union(*(of(one) for one in inner.split(","))) if name == "rlver" else {normal(name)}
        return found

    return {extra: of(extra) | of(BASE) for extra in lines}


@cache
def imported_names(path: Path, at_once: bool) -> tuple[tuple[str, str | None], ...]:
    return tuple(found_in(path, at_once))


def found_in(path: Path, at_once: bool) -> Iterator[tuple[str, str | None]]:
    """What a file imports: (module, name). `at_once`: with the file itself, not inside functions; never for types alone."""
    left: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and at_once:
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            left += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        left += ast.iter_child_nodes(node)


def distributions(name: str) -> set[str]:
    """Those that could have brought a module; several share a namespace, then the most like its name."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top == "rlver":
        return set()
    if top == "opentelemetry":  # a namespace of many
        return {"opentelemetry-api"}
    found = {normal(one) for one in INSTALLED.get(top, [top])}
    return {normal(top)} if normal(top) in found else found


def loaded_at_once(start: set[str], known: dict[str, Path]) -> dict[str, str]:
    """The distributions that importing these modules needs, each with a module that does."""
    needs: dict[str, str] = {}
    seen, left = set[str](), set(start)
    while left:
        module = left.pop()
        seen.add(module)
        for name, member in imported_names(known[module], at_once=True):
            left |= ({f"{name}.{member}", name} & known.keys()) - seen
            needs |= dict.fromkeys(distributions(name), module)
    return needs


@pytest.mark.long
def test_every_import_is_declared_and_everything_declared_is_used(repository_root: Path, declared: dict[str, set[str]]) -> None:
    needs: dict[str, set[str]] = {}
    for module, path in modules(repository_root).items():
        for name, _ in imported_names(path, at_once=False):
            for one in distributions(name):
                needs.setdefault(one, set()).add(module)
    assert {"pydantic", "torch", "numpy"} <= needs.keys()
    assert {one: {module} for one, module in ELSEWHERE.items()} == {one: needs.pop(one) for one in ELSEWHERE}
    assert all(one in declared[one] for one in ELSEWHERE)
    assert not {one: where for one, where in needs.items() if one not in declared["all"]}, "declare it in pyproject.toml"
    assert not declared["all"] - needs.keys() - FOR_OTHERS.keys(), "nothing imports it"


def test_each_room_loads_with_the_extra_that_is_named_for_it(repository_root: Path, declared: dict[str, set[str]]) -> None:
    known = modules(repository_root)
    lacking = {}
    for room in installed.EXTRA_OF:
        inside = {
            module for module in known if f"{module}.".startswith(f"{room}.") and installed.extra_of(module) == installed.EXTRA_OF[room]
        }
        assert inside, f"there is no {room}"
        needs = loaded_at_once(inside, known)
        lacking |= {f"{room}: {one}": module for one, module in needs.items() if one not in declared[installed.EXTRA_OF[room]]}
    assert not lacking


def test_the_base_is_light(repository_root: Path, declared: dict[str, set[str]]) -> None:
    assert len(declared[BASE]) <= 5
    needs = loaded_at_once(set(BASE_NEEDS), modules(repository_root))
    assert not {one: module for one, module in needs.items() if one not in declared[BASE]}


def test_the_extra_all_holds_every_other_and_dev_holds_all(declared: dict[str, set[str]]) -> None:
    assert declared["all"] == set().union(*(names for extra, names in declared.items() if extra not in ("dev", "docs", *ELSEWHERE)))
    assert declared["all"] < declared["dev"]


@pytest.mark.long
@pytest.mark.parametrize(("library", "arguments", "extra"), [("pandas", "score x", "report"), ("h11", "blind a b", "blind")])
def test_a_command_whose_extra_is_missing_says_so_in_one_line(library: str, arguments: str, extra: str, tmp_path: Path) -> None:
    program = f"import sys; sys.modules[{library!r}] = None; from rlver.flows.cli import main; sys.exit(main({arguments.split()!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"error: needs the extra {extra}: pip install 'rlver[{extra}]' (there is no {library})\n"


def test_the_version_is_that_of_the_package(repository_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rlver.flows.cli import main

    assert main(["--version"]) == 0
    version = tomllib.loads((repository_root / "pyproject.toml").read_text())["project"]["version"]
    assert capsys.readouterr().out == f"rlver {version}\n"


@pytest.fixture(scope="module")
def built(repository_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist of the tracked files."""
    place = tmp_path_factory.mktemp("built")
    source = place / "source"
    listed = subprocess.run(("git", "ls-files", "-z"), cwd=repository_root, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (repository_root / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(repository_root / name, source / name, follow_symlinks=False)
    program = "import sys; from setuptools import build_meta as b; place = sys.argv[1]; b.build_sdist(place); b.build_wheel(place)"
    subprocess.run((sys.executable, "-c", program, str(place)), cwd=source, capture_output=True, check=True)
    return place


@pytest.mark.slow
def test_the_wheel_and_the_sdist_hold_the_product_and_nothing_else(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        in_source = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert {name.partition("/")[0] for name in held} == {"rlver"}
    product = {
        f"rlver/{path.relative_to(built / 'source').as_posix()}"
        for room in ("components", "tasks", "flows")
        for path in (built / "source" / room).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert not product - held, "add its suffix to package-data"
    assert all(name in product or name == "rlver/__init__.py" or name.startswith("rlver/workspace/") for name in held)
    assert {f"rlver/workspace/{name}" for name in FILES if (TEMPLATES / name).is_file()} <= held
    assert held <= in_source and not [name for name in in_source if name.startswith("tests")]


@pytest.mark.slow
def test_the_wheel_alone_holds_a_dialogue_and_lays_out_a_workspace(built: Path, tmp_path: Path, declared: dict[str, set[str]]) -> None:
    """In an empty environment, with the distributions of the base only, copied from this one."""
    venv.create(tmp_path / "empty", with_pip=False)
    python = tmp_path / "empty" / "bin" / "python"
    site = next((tmp_path / "empty" / "lib").glob("python*/site-packages"))
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    left, copied = set(declared[BASE]), set[str]()
    while left:
        copied.add(name := left.pop())
        for file in metadata.distribution(name).files or ():
            if ".." not in file.parts:
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), site / file)
        needed = (line for line in metadata.requires(name) or () if "extra ==" not in line and "platform_system" not in line)
        left |= {normal(re.split(r"[^\w.-]", line)[0]) for line in needed} - copied
    assert len(copied) < 20

    def said(*arguments: str) -> str:
        command = (str(python), "-I", *arguments)
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    said("-c", DIALOGUE)  # Python compiles
    emotion, seconds = said("-c", DIALOGUE).split()
    assert 0 <= int(emotion) <= 100 and float(seconds) < 1.0, "0.5 s on a quiet machine"
    assert "Commands:" in said("-m", "rlver.flows.cli", "--help")
    said("-m", "rlver.flows.cli", "init", "w")
    assert (tmp_path / "w" / "dvc.yaml").is_file() and (tmp_path / "w" / "params" / "recipes" / "qwen7b.yaml").is_file()
