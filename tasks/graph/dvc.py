"""The graph as DVC sees it: its execution plan, what changed, one stage at a time. The only user of dvc.

DVC's own answers are passed on; nothing here knows a stage by name. A stage is run by `python -m dvc repro --single-item` in a process
group of its own, because DVC deletes a stage's outputs before it runs and must never be interrupted half-way by a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlver.components.domain.files import read_json, read_yaml
from rlver.tasks.graph import lock as integrity
from rlver.tasks.graph import pipelines
from rlver.tasks.graph.lock import AT_WORK, HINTS, WITHOUT_LOCK, Outcome, failure, outcome
from rlver.tasks.graph.lock import StageFailed as StageFailed
from rlver.tasks.graph.lock import md5_of as md5_of
from rlver.tasks.runtime import environment, installed, processes

if TYPE_CHECKING:
    from dvc.repo import Repo

PIPELINE = "dvc.yaml"
TRAINING = ("train", "train_verl")  # the stages that train a variant; the second where verl does
NEVER_RAN = "nobody has asked for it before"
GLANCE_S = 10.0  # for what nothing depends on
HALF_WRITTEN_TRIES, HALF_WRITTEN_WAIT_S = 5, 0.2
LOCK_WAIT_S = 600.0  # DVC holds its lock while it hashes: minutes for a large model


class GraphError(ValueError):
    """dvc.yaml, dvc.lock or the wanted stages are unusable; the message is one line."""


@dataclass(frozen=True)
class Stage:
    """One stage of the plan. `needs` are the stages whose outputs it reads, directly or not; `reads` and `writes` are paths from the root."""

    name: str
    needs: frozenset[str]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    command: str = ""

    @property
    def pipeline(self) -> str:
        return self.name.rpartition(":")[0] or PIPELINE

    @property
    def group(self) -> str:
        return self.name.rpartition(":")[2].partition("@")[0]

    @property
    def variant(self) -> str | None:
        return self.name.partition("@")[2] or None


@dataclass(frozen=True)
class LockedStage:
    """What dvc.lock recorded of a stage's last run: parameters by file, the MD5 of each output, and the seed and variant that its command named."""

    name: str
    parameters: Mapping[str, Mapping[str, Any]]
    dependencies: Mapping[str, str]
    outputs: Mapping[str, str]
    seed: int | None = None
    command_variant: str | None = None  # whose settings it ran with; the name of a stage may hold more, such as a seed

    @property
    def digest(self) -> str:
        """Twelve hex digits over paths and MD5s of all outputs."""
        return hashlib.sha256(repr(sorted(self.outputs.items())).encode()).hexdigest()[:12]


def plan(root: Path, all_pipelines: bool = False) -> list[Stage]:
    """The stages of the root's dvc.yaml, or of everything that is offered, in the order in which `dvc repro` runs them. Raises GraphError."""
    import networkx
    from dvc.repo.reproduce import get_active_graph, plan_repro

    with _repo(root) as repo:
        graph = get_active_graph(pipelines.whole(repo).graph if all_pipelines else repo.index.graph)
        return [
            Stage(
                pipelines.address(step.addressing),
                frozenset(pipelines.address(other.addressing) for other in networkx.descendants(graph, step) if not _is_data(other)),
                tuple(os.path.relpath(dep.fs_path, root) for dep in step.deps),
                tuple(os.path.relpath(out.fs_path, root) for out in step.outs),
                step.cmd if isinstance(step.cmd, str) else "\n".join(step.cmd or ()),
            )
            for step in plan_repro(graph)
            if (all_pipelines and not _is_data(step)) or step.path_in_repo == PIPELINE
        ]


def _is_data(step: Any) -> bool:
    """To DVC a file that was added to it is a stage too."""
    return str(step.path_in_repo).endswith(".dvc")


def changed(root: Path, stages: Sequence[str] = (PIPELINE,)) -> dict[str, list[str]]:
    """What DVC would run now of `stages` (a dvc.yaml: all of its stages), each with its reasons; what is up to date is left out.

    Without any `stages`: of every pipeline, as far as it was asked for. A stage that nobody asked for before would run.
    """
    with _repo(root) as repo:
        known = {PIPELINE, *(name for stage in repo.index.stages for name in (stage.path_in_repo, stage.addressing))}
        targets = [name for name in stages if name in known]
        found = repo.status(targets=targets or None) if targets or not stages else {}
        new = {name: [NEVER_RAN] for name in stages if name not in known}
        return {name: _reasons(entries) for name, entries in found.items()} | new


def trained(names: Iterable[str]) -> dict[str, str]:
    """Those of `names` that are stages that train, each with its variant."""
    parts = {name: name.rpartition(":")[2].partition("@") for name in names}
    return {name: variant for name, (group, _, variant) in parts.items() if group in TRAINING}


def reproduce(
    root: Path,
    stage: str,
    on_line: Callable[[str], None],
    *,
    jobs: int = 1,
    stop: processes.Stop | None = None,
    limit_h: float | None = None,
    run: str | None = None,
) -> Outcome:
    """Bring one stage up to date, passing its output on line by line. Raises StageFailed; Ctrl-C ends the stage and passes on.

    `run` is the MLflow run that the stage's process finds itself in: what its code logs with MLflow lands there.
    A stage that runs longer than `limit_h` hours is ended and has failed; what it saved is kept, so the next run goes on from there.

    Stages that do not need each other may be reproduced at once, `jobs` of them. DVC is told to wait for its own lock: a stage that ends
    while another one's files are hashed would otherwise fail after its work was done.
    """
    installed.refresh(root)
    said: list[str] = []

    def listen(line: str) -> None:
        if line.strip() and not line.startswith(HINTS):
            said.append(line)
            on_line(line)

    command = (sys.executable, "-m", "dvc", "--wait-for-lock", "repro", "--single-item", stage)
    limit_s = None if limit_h is None else limit_h * 3600
    try:
        with integrity.lock_kept(root, stage):
            status = processes.run(
                command, root, environment.for_child({"MLFLOW_RUN_ID": run} if run else {}, jobs), listen, stop=stop, limit_s=limit_s
            )
    except processes.TookTooLong:
        raise StageFailed(stage, f"stopped after {limit_h:g} hours, its limit; the next run goes on from there", temporary=False) from None
    if status:
        raise failure(stage, status, said)
    return outcome(said)


def locked(root: Path) -> dict[str, LockedStage]:
    """All dvc.lock files by stage name; empty when nothing has run yet. Raises GraphError or BadFile for a part of one."""
    with _locks(root) as locks:
        try:
            return {
                prefix + name: LockedStage(
                    name=prefix + name,
                    parameters=entry.get("params", {}),
                    dependencies={dep["path"]: dep.get("md5", "") for dep in entry.get("deps", [])},
                    outputs={out["path"]: out.get("md5", "") for out in entry.get("outs", [])},
                    seed=int(named[1]) if (named := re.search(r"--seed (\d+)", str(entry.get("cmd", "")))) else None,
                    command_variant=named[1] if (named := re.search(r"--variant ([\w.-]+)", str(entry.get("cmd", "")))) else None,
                )
                for prefix, path in locks
                for name, entry in read_yaml(path).get("stages", {}).items()
            }
        except (TypeError, AttributeError, KeyError) as error:
            raise GraphError(f"dvc.lock is cut off; {WITHOUT_LOCK}") from error


def lock_hash(root: Path) -> str | None:
    """Twelve hex digits of all dvc.lock files, or None when nothing has run yet. Raises GraphError while another DVC is at work."""
    with _locks(root, GLANCE_S) as locks:
        content = b"".join(path.read_bytes() for _, path in locks)
    return hashlib.sha256(content).hexdigest()[:12] if content else None


def holders(root: Path) -> set[int]:
    """The processes that DVC's own record says are at work here; some may have ended. Raises GraphError when the record is damaged.

    DVC writes it in place, so half of it can be read: it is read again a few times before it counts as damaged.
    """
    path = root / ".dvc" / "tmp" / "rwlock"
    tries = 0
    while True:
        try:
            held = read_json(path) if path.is_file() else {}
            entries = [entry for kind in ("read", "write") for entry in held.get(kind, {}).values()]
            return {int(one["pid"]) for entry in entries for one in (entry if isinstance(entry, list) else [entry])}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            tries += 1
            if tries == HALF_WRITTEN_TRIES:
                raise GraphError(f"{path} is damaged ({error}); when no dvc is running: rm {path}") from error
            time.sleep(HALF_WRITTEN_WAIT_S)


def require_import(root: Path, md5: str) -> Path:
    """The persona file that params.yaml imports and whose MD5 is `md5`. Raises GraphError when there is none."""
    personas = read_yaml(root / "params.yaml").get("personas") or {}
    named = [root / str(path) for key in ("imported_train", "imported_test") if (path := personas.get(key))]
    for path in named:
        if path.is_file() and md5_of(path) == md5:
            return path
    files = ", ".join(str(path.relative_to(root) if path.is_relative_to(root) else path) for path in named) or "none"
    raise GraphError(f"the personas that landed (MD5 {md5}) are not imported: set personas.imported_train in params.yaml (now: {files})")


@contextlib.contextmanager
def _locks(root: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[list[tuple[str, Path]]]:
    """Each dvc.lock, the root's first, with what DVC puts before the names of its stages. Its paths are from the root: wdir is ..

    None of them changes meanwhile: DVC rewrites them in place, so half a file could be read.
    """
    folders = (root, *sorted(path.parent for path in root.glob("*/dvc.lock")))
    locks = [
        (f"{folder.name}/{PIPELINE}:" if folder != root else "", lock) for folder in folders if (lock := folder / "dvc.lock").is_file()
    ]
    with _exclusive(root, wait_s) if locks else contextlib.nullcontext():
        yield locks


@contextlib.contextmanager
def _repo(root: Path) -> Iterator[Repo]:
    """The repository under its lock, its graph checked. Half a dvc.lock, of a run that was killed, becomes what it was before that run."""
    from dvc.exceptions import DvcException

    installed.refresh(root)
    with _exclusive(root) as repo:
        try:
            _ = repo.index.graph  # reads and checks dvc.yaml and dvc.lock
        except DvcException as error:
            named = re.search(r"'(?:\./)?([^']*dvc\.lock)'", str(error))
            if not named or not integrity.put_back(root, Path(named.group(1))):
                raise
            repo._reset()
            _ = repo.index.graph
        yield repo


@contextlib.contextmanager
def _exclusive(root: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[Repo]:
    """The repository under its lock, opened from its root, because DVC names stages relative to the current directory.

    For one thread: the current directory belongs to the process. Raises GraphError when the lock is not free within `wait_s`.
    """
    from dvc.dirs import site_cache_dir
    from dvc.exceptions import DvcException, NotDvcRepoError
    from dvc.lock import LockError
    from dvc.repo import Repo, lock_repo

    try:
        with contextlib.chdir(root), Repo() as repo, contextlib.ExitStack() as held:
            end = time.monotonic() + wait_s
            while True:
                try:
                    held.enter_context(lock_repo(repo))
                    break
                except LockError:  # DVC itself has waited for 3 s
                    if time.monotonic() > end:
                        raise GraphError(AT_WORK) from None
            yield repo
    except NotDvcRepoError as error:
        raise GraphError(f"{root} is no DVC project: run `dvc init` there") from error
    except DvcException as error:
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        said = " ".join(f"{error}{cause}".split())
        raise GraphError(f"{said}; {WITHOUT_LOCK}" if "dvc.lock" in said else said) from error
    except sqlite3.DatabaseError as error:
        raise GraphError(f"DVC's list of known files is damaged ({error}); delete {site_cache_dir()}, which is made again") from error


def _reasons(entries: Iterable[Any]) -> list[str]:
    reasons: list[str] = []
    for entry in entries:
        if isinstance(entry, str):
            reasons.append(entry)
            continue
        for kind, items in entry.items():
            for path, state in items.items():
                said = ", ".join(f"{key} {value}" for key, value in state.items()) if isinstance(state, Mapping) else state
                reasons.append(f"{kind.removeprefix('changed ')} {path}: {said}")
    return reasons
