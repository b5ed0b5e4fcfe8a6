"""DVC experiments: one table of settings, every combination run in a worktree of its own, metrics side by side.

The numbers of a sweep stand in params/sweeps/<name>.yaml, as all numbers that change a result stand in files: `file.yaml:dotted.key` with
the values to try. Experiments are DVC's own: `dvc exp show`, `dvc exp apply` and `dvc exp branch` work on them.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlver.components.domain.files import BadFile, read_yaml
from rlver.tasks.runtime import environment, processes
from rlver.tasks.runtime.brackets import in_brackets

SWEEPS = Path("params") / "sweeps"
LAID_OUT = Path("scratch") / "experiments"


class SweepError(ValueError):
    """A sweep that cannot be run, or did not succeed; one line."""


@dataclass(frozen=True)
class Experiment:
    """One combination: its name, its settings by `file:key`, and how `dvc exp run -S` is told."""

    name: str
    settings: Mapping[str, Any]

    @property
    def options(self) -> list[str]:
        """`++` sets a key whether or not the file has it."""
        told = (f"{key.replace(':', ':++', 1)}={json.dumps(value)}" for key, value in self.settings.items())
        return [part for one in told for part in ("-S", one)]


def names(root: Path) -> list[str]:
    """The sweeps that there are."""
    return sorted(path.stem for path in (root / SWEEPS).glob("*.yaml"))


def read_sweep(root: Path, name: str) -> list[Experiment]:
    """Every combination of a sweep's values, in the order of the file. Raises SweepError."""
    path = root / SWEEPS / f"{name}.yaml"
    if not path.is_file():
        raise SweepError(f"there is no sweep {name} ({path.relative_to(root)}); there is {', '.join(names(root)) or 'none'}")
    table = read_yaml(path)
    for key, values in table.items():
        file, colon, dotted = str(key).partition(":")
        if not colon or not dotted or not (root / file).is_file():
            raise BadFile(f"{path}: {key}: write file:key, as params/grpo-think.yaml:train.beta, of a file that exists")
        if not isinstance(values, list) or not values or any(isinstance(value, (list, dict)) for value in values):
            raise BadFile(f"{path}: {key}: give a list of single values")
    combinations = list(itertools.product(*table.values()))
    return [Experiment(f"{name}-{number}", dict(zip(table, values, strict=True))) for number, values in enumerate(combinations, start=1)]


def run_sweep(root: Path, experiments: Sequence[Experiment], on_line: Callable[[str], None]) -> None:
    """Queue the experiments and run what is queued, one at a time. Raises SweepError.

    Earlier experiments of the same names are removed first: were the new one to fail, the old result would stand in its place. What ends
    this call early ends the experiment that runs too: DVC runs it in a process that would go on. All of this is done to DVC's one queue, so
    a queue with somebody else's experiments in it is refused.
    """
    people = read_yaml(root / "params.yaml").get("personas") or {}
    for name in filter(None, (people.get("imported_train"), people.get("imported_test"))):
        in_dvc = any((root / f"{part}.dvc").is_file() for part in (name, *Path(name).parents))
        in_git = ["git", "ls-files", "--error-unmatch", "--", name]
        if not in_dvc and processes.run(in_git, root, environment.for_child(), lambda _: None):
            raise SweepError(f"{name} is in neither git nor DVC, so no experiment would have it: `dvc add {name}`, then commit {name}.dvc")
    if waiting := _in_queue(root, "Queued|Running"):
        raise SweepError(
            f"DVC's queue holds {len(waiting)} other experiments: wait for them (`dvc queue start`, `dvc queue status`), or remove them with "
            "`dvc queue remove --queued`"
        )
    known = _dvc(root, ["exp", "list", "--name-only"])
    if earlier := [experiment.name for experiment in experiments if experiment.name in known]:
        _dvc(root, ["exp", "remove", *earlier], on_line)
    try:
        for experiment in experiments:
            _dvc(root, ["exp", "run", "--queue", "--name", experiment.name, *experiment.options], on_line)
        _dvc(root, ["exp", "run", "--run-all", "--jobs", "1"], on_line)
    except BaseException:
        _empty_queue(root, on_line)
        raise


def _empty_queue(root: Path, on_line: Callable[[str], None]) -> None:
    """Forget what waits, then interrupt what runs and give it time to end: what `queue stop --kill` kills is DVC's process, not its stage."""
    with suppress(SweepError):
        _dvc(root, ["queue", "remove", "--queued"], on_line)
    with suppress(SweepError):
        if running := _in_queue(root, "Running"):
            _dvc(root, ["queue", "kill", *(line.split()[1] for line in running)], on_line)
            end = time.monotonic() + processes.GRACE_S
            while time.monotonic() < end and _in_queue(root, "Running"):
                time.sleep(processes.LOOK_EVERY_S)
    with suppress(SweepError):
        _dvc(root, ["queue", "stop", "--kill"], on_line)


def _in_queue(root: Path, state: str) -> list[str]:
    """The lines of DVC's queue in this state: task, name, when, state. Raises SweepError."""
    return [line for line in _dvc(root, ["queue", "status"]) if re.search(rf"\b({state})\s*$", line)]


def checked_out(root: Path) -> str:
    """The commit that experiments begin from. Raises SweepError."""
    return _git(root, "rev-parse", "HEAD")[0]


def results(root: Path, experiments: Sequence[Experiment], began_from: str) -> dict[str, dict[str, str]]:
    """The mean final emotion by variant, with its interval, of each experiment that has one: DVC lists some that failed too."""
    shown = next((line for line in _dvc(root, ["exp", "show", "--json", "--rev", began_from]) if line.startswith("[")), "[]")
    wanted = {experiment.name for experiment in experiments}
    found = {}
    for commit in json.loads(shown):
        for experiment in commit.get("experiments") or []:
            first = experiment["revs"][0] or {}
            if first.get("error"):  # DVC shows one that failed with the metrics of the commit it began from
                continue
            metrics = (first.get("data") or {}).get("metrics", {})
            means = {
                Path(path).parent.name: _with_interval(content["data"])
                for path, content in metrics.items()
                if path.endswith("sentient.json") and "emotion_mean" in content.get("data", {})
            }
            if experiment["name"] in wanted and means:
                found[experiment["name"]] = means
    return found


@contextmanager
def laid_out(root: Path, name: str, began_from: str | None = None) -> Iterator[Path]:
    """The project's folder as an experiment left it, results and all: a worktree under scratch/. Raises SweepError.

    It goes with the block. After an error it stays, with what was begun in it, and is there again the next time.
    """
    commit = _commit_of(root, name, began_from or checked_out(root))
    tree = root / LAID_OUT / f"{name}-{commit[:12]}"
    if not tree.is_dir():
        _git(root, "worktree", "add", "--quiet", "--force", "--detach", str(tree), commit)
    folder = tree.joinpath(*_git(root, "rev-parse", "--show-prefix"))
    _dvc(folder, ["config", "--local", "cache.dir", _dvc(root, ["cache", "dir"])[-1]])
    _dvc(folder, ["checkout", "--quiet", "--allow-missing"])
    yield folder
    _git(root, "worktree", "remove", "--force", str(tree))


def _commit_of(root: Path, name: str, began_from: str) -> str:
    """That of the experiment which began from this commit, as DVC takes it; else of the only one of this name. Raises SweepError."""
    found = {}  # by the commit that each began from; DVC's refs are refs/exps/<2 digits>/<38 digits>/<name>
    for commit, ref in map(str.split, _git(root, "for-each-ref", "--format=%(objectname) %(refname)", "refs/exps/")):
        *_, first, rest, own = ref.split("/")
        if own == name:
            found[first + rest] = commit
    if not found:
        raise SweepError(f"there is no experiment {name}; `dvc exp list --all-commits` names those that there are")
    if began_from not in found and len(found) > 1:
        raise SweepError(f"{len(found)} experiments are called {name}: check out the commit that the wanted one began from")
    return found.get(began_from) or next(iter(found.values()))


def _with_interval(scores: Mapping[str, Any]) -> str:
    ends = scores.get("emotion_ci95")
    return f"{scores['emotion_mean']:.1f}" + (f" {in_brackets(ends, '.1f')}" if ends else "")


def table(experiments: Sequence[Experiment], found: Mapping[str, Mapping[str, str]]) -> str:
    """The experiments as Markdown: settings, and the mean final emotion of every variant; a failed one says so."""
    from rlver.components.report.tables import plain_table

    keys = list(experiments[0].settings)
    variants = sorted({variant for metrics in found.values() for variant in metrics})
    rows: list[list[object]] = []
    for experiment in experiments:
        metrics = found.get(experiment.name)
        cells = [metrics.get(variant, "") for variant in variants] if metrics else ["failed"]
        rows.append([experiment.name, *(experiment.settings[key] for key in keys), *cells])
    return plain_table(["experiment", *keys, *variants], rows)


def _git(root: Path, *arguments: str) -> list[str]:
    """Its lines. Raises SweepError."""
    said: list[str] = []
    if processes.run(["git", *arguments], root, environment.for_child(), said.append):
        raise SweepError(f"git {arguments[0]}: {(said or ['no reason given'])[-1]}")
    return said


def _dvc(root: Path, arguments: Sequence[str], on_line: Callable[[str], None] | None = None) -> list[str]:
    """Its lines, each passed on as it comes. Raises SweepError."""
    said: list[str] = []

    def listen(line: str) -> None:
        said.append(line)
        if on_line:
            on_line(line)

    if processes.run([sys.executable, "-m", "dvc", *arguments], root, environment.for_child(), listen):
        errors = [line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: ")]
        raise SweepError(f"dvc {' '.join(arguments[:2])}: {(errors or said or ['no reason given'])[-1]}")
    return said
