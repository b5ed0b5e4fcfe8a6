"""The graph as DVC sees it: its execution plan, what changed, one stage at a time. The only user of dvc.

DVC's own answers are passed on; nothing here knows a stage by name. A stage is run by `python -m dvc repro --single-item` in a process
group of its own, because DVC deletes a stage's outputs before it runs and must never be interrupted half-way by a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from components.files import read_yaml
from tasks import environment, processes
from tasks.stages import TEMPORARY_FAILURE

if TYPE_CHECKING:
    from dvc.repo import Repo

Outcome = Literal["ran", "restored", "unchanged"]
PIPELINE = "dvc.yaml"
ALL = "all"  # in the place of a variant: every stage of every pipeline


# What DVC says after every stage about git and remotes; it is no part of a stage's output.
HINTS = (
    "To track the changes with git",
    "\tgit add",
    "To enable auto staging",
    "\tdvc config core.autostage",
    "Use `dvc push`",
    "Generating lock file",
    "Updating lock file",
)


class GraphError(ValueError):
    """dvc.yaml, dvc.lock or the wanted stages are unusable; the message is one line."""


class StageFailed(RuntimeError):
    """A stage did not succeed. `temporary` says whether the same command may succeed later."""

    def __init__(self, stage: str, reason: str, temporary: bool) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage, self.reason, self.temporary = stage, reason, temporary


@dataclass(frozen=True)
class Stage:
    """One stage of the plan. `needs` are the stages whose outputs it reads, directly or not; `reads` are its inputs, from the root."""

    name: str
    needs: frozenset[str]
    reads: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        return self.name.rpartition(":")[2].partition("@")[0]

    @property
    def variant(self) -> str | None:
        return self.name.partition("@")[2] or None


@dataclass(frozen=True)
class LockedStage:
    """What dvc.lock recorded of a stage's last run: parameters by file, and the MD5 of each output."""

    name: str
    parameters: Mapping[str, Mapping[str, Any]]
    dependencies: Mapping[str, str]
    outputs: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Twelve hex digits over paths and MD5s of all outputs."""
        return hashlib.sha256(repr(sorted(self.outputs.items())).encode()).hexdigest()[:12]


def plan(root: Path, all_pipelines: bool = False) -> list[Stage]:
    """The stages of the root's dvc.yaml, or of every dvc.yaml, in the order in which `dvc repro` runs them. Raises GraphError."""
    import networkx
    from dvc.repo.reproduce import get_active_graph, plan_repro

    with _repo(root) as repo:
        graph = get_active_graph(repo.index.graph)
        return [
            Stage(
                step.addressing,
                frozenset(other.addressing for other in networkx.descendants(graph, step)),
                tuple(os.path.relpath(dep.fs_path, root) for dep in step.deps),
            )
            for step in plan_repro(graph)
            if all_pipelines or step.path_in_repo == PIPELINE
        ]


def changed(root: Path, stages: Sequence[str] = (PIPELINE,)) -> dict[str, list[str]]:
    """What DVC would run now of `stages` (a dvc.yaml: all of its stages), each with its reasons; what is up to date is left out.

    Without any `stages`: of every pipeline.
    """
    with _repo(root) as repo:
        return {name: _reasons(entries) for name, entries in repo.status(targets=list(stages) or None).items()}


def select(steps: Sequence[Stage], only: Iterable[str] | None, variants: Iterable[str] | None) -> list[Stage]:
    """The part of the plan that was asked for, in plan order.

    `only` takes stage names (`train@grpo-think`) or the name before the @ (`train`) and selects exactly those. `variants` alone selects
    the stages of those variants and all that they need; together with `only` it narrows it. ALL stands for every variant.
    Raises GraphError for an unknown name.
    """
    wanted, of_variants = set(only or ()), set(variants or ())
    if ALL in of_variants:
        of_variants = set()
    _must_be_known(wanted, {step.name for step in steps} | {step.group for step in steps}, "stage")
    _must_be_known(of_variants, {step.variant for step in steps if step.variant}, "variant")
    chosen = [step for step in steps if not wanted or step.name in wanted or step.group in wanted]
    if of_variants:
        chosen = [step for step in chosen if step.variant in of_variants or (wanted and step.variant is None)]
        if not wanted:
            names = {step.name for step in chosen}.union(*(step.needs for step in chosen))
            chosen = [step for step in steps if step.name in names]
    if not chosen:
        raise GraphError(f"no stage of {', '.join(sorted(wanted))} belongs to {', '.join(sorted(of_variants))}")
    return chosen


def reproduce(root: Path, stage: str, on_line: Callable[[str], None], grace_s: float = processes.GRACE_S) -> Outcome:
    """Bring one stage up to date, passing its output on line by line. Raises StageFailed; Ctrl-C ends the stage and passes on."""
    said: list[str] = []

    def listen(line: str) -> None:
        if line.strip() and not line.startswith(HINTS):
            said.append(line)
            on_line(line)

    command = (sys.executable, "-m", "dvc", "repro", "--single-item", stage)
    status = processes.run(command, root, environment.for_child(), listen, grace_s=grace_s)
    if status:
        raise _failure(stage, status, said)
    if any("didn't change, skipping" in line for line in said):
        return "unchanged"
    return "restored" if any("is cached - skipping run" in line for line in said) else "ran"


def locked(root: Path) -> dict[str, LockedStage]:
    """All dvc.lock files by stage name; empty when nothing has run yet."""
    return {
        prefix + name: LockedStage(
            name=prefix + name,
            parameters=entry.get("params", {}),
            dependencies={dep["path"]: dep.get("md5", "") for dep in entry.get("deps", [])},
            outputs={out["path"]: out.get("md5", "") for out in entry.get("outs", [])},
        )
        for prefix, path in _locks(root)
        for name, entry in read_yaml(path).get("stages", {}).items()
    }


def lock_hash(root: Path) -> str | None:
    """Twelve hex digits of all dvc.lock files, or None when nothing has run yet."""
    content = b"".join(path.read_bytes() for _, path in _locks(root))
    return hashlib.sha256(content).hexdigest()[:12] if content else None


def md5_of(path: Path) -> str:
    """A file's MD5 as DVC records it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def require_import(root: Path, md5: str) -> Path:
    """The persona file that params.yaml imports and whose MD5 is `md5`. Raises GraphError when there is none."""
    personas = read_yaml(root / "params.yaml").get("personas") or {}
    named = [root / str(path) for key in ("imported_train", "imported_test") if (path := personas.get(key))]
    for path in named:
        if path.is_file() and md5_of(path) == md5:
            return path
    files = ", ".join(str(path.relative_to(root) if path.is_relative_to(root) else path) for path in named) or "none"
    raise GraphError(f"the personas that landed (MD5 {md5}) are not imported: set personas.imported_train in params.yaml (now: {files})")


def _locks(root: Path) -> list[tuple[str, Path]]:
    """Each dvc.lock, the root's first, with what DVC puts before the names of its stages. Its paths are from the root: wdir is .."""
    folders = (root, *sorted(path.parent for path in root.glob("*/dvc.lock")))
    return [(f"{folder.name}/{PIPELINE}:" if folder != root else "", lock) for folder in folders if (lock := folder / "dvc.lock").is_file()]


@contextlib.contextmanager
def _repo(root: Path) -> Iterator[Repo]:
    """The repository, opened from its root, because DVC names stages relative to the current directory."""
    from dvc.exceptions import DvcException, NotDvcRepoError
    from dvc.repo import Repo

    try:
        with contextlib.chdir(root), Repo() as repo:
            _ = repo.index.graph  # reads and checks dvc.yaml
            yield repo
    except NotDvcRepoError as error:
        raise GraphError(f"{root} is no DVC project: run `dvc init` there") from error
    except DvcException as error:
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        raise GraphError(" ".join(f"{error}{cause}".split())) from error


def _reasons(entries: Iterable[Any]) -> list[str]:
    reasons: list[str] = []
    for entry in entries:
        if isinstance(entry, str):
            reasons.append(entry)
            continue
        for kind, items in entry.items():
            reasons.extend(f"{kind.removeprefix('changed ')} {path}: {_state(state)}" for path, state in items.items())
    return reasons


def _state(state: Any) -> str:
    return ", ".join(f"{key} {value}" for key, value in state.items()) if isinstance(state, Mapping) else str(state)


def _must_be_known(names: set[str], known: set[str], what: str) -> None:
    if unknown := sorted(names - known):
        raise GraphError(f"unknown {what} {', '.join(unknown)}; dvc.yaml has {', '.join(sorted(known))}")


def _failure(stage: str, status: int, said: Sequence[str]) -> StageFailed:
    """DVC folds every failure into its exit status 255; the stage's own status stands in DVC's message."""
    text = "\n".join(said)
    match = re.search(r"exited with (-?\d+)", text)
    code = int(match.group(1)) if match else min(status, 1)
    if code < 0 or 128 < code < 160:
        number = -code if code < 0 else code - 128
        return StageFailed(stage, f"ended by signal {number}{' (out of memory?)' if number == 9 else ''}", temporary=number not in (2, 15))
    if "Unable to acquire lock" in text or "is busy, it is being" in text:
        return StageFailed(stage, "another DVC process is at work in this folder; wait for it to end", temporary=True)
    own = [line for line in said if line.startswith("error: ")]
    dvc = [line for line in said if line.startswith("ERROR: ")]
    other = [line for line in said if not line.startswith(("ERROR: ", "> "))]
    reason = (own or ([] if match else dvc) or other or dvc or [f"exit status {status}"])[-1]
    return StageFailed(stage, reason.removeprefix("error: ").removeprefix("ERROR: "), temporary=code == TEMPORARY_FAILURE)
