"""What a project folder holds that can be made again, and its removal. Nothing that was paid for, imported or promised is in the list."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import psutil

from rlver.components.domain.files import InUse, alone_with, exclusive_lock, parse_json
from rlver.components.domain.unfinished import MADE_WITH
from rlver.tasks.commands.workspace import is_environment
from rlver.tasks.graph import dvc

TOOLS = (".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".import_linter_cache", ".grimp_cache", ".benchmarks", ".coverage")
UNFINISHED = ".partial"
NOT_OURS = {".git", ".dvc"}


class Removable(NamedTuple):
    """A file or folder that can go, how large it is, and what its loss costs."""

    path: Path
    size: int
    cost: str


def removable(root: Path) -> list[Removable]:
    """What can go, in the order of the list of kinds: checkpoints, unfinished dialogues, caches of tools and of Python."""
    waits = any((root / "scratch").glob("experiments/*/spool/*"))
    found = [(root / "scratch", "unfinished trainings begin anew" + ("; runs of experiments in MLflow stay unfinished" if waits else ""))]
    found += [
        (path, "unfinished dialogues are held again, an unfinished fit begins anew")
        for path in sorted(_below(root, f"*{UNFINISHED}"))
        if _is_ours(path)
    ]
    found += [(root / name, "a tool is slower once") for name in TOOLS]
    found += [(path, "Python compiles again") for path in sorted(_below(root, "__pycache__"))]
    there = {path: cost for path, cost in found if path.exists() and not path.is_symlink()}
    return [Removable(path, _size(path), cost) for path, cost in there.items() if not there.keys() & set(path.parents)]


def remove(root: Path, items: Sequence[Removable]) -> int:
    """Remove them and return how many bytes came free. Raises InUse, and removes nothing, while a stage, a training or `rlver converse` is at work here."""
    if holders := sorted(pid for pid in dvc.holders(root) if psutil.pid_exists(pid)):
        raise InUse(f"process {', '.join(map(str, holders))} is at work here; wait for it to end")
    with ExitStack() as held:
        for item in items:
            if item.path.suffix == UNFINISHED:
                held.enter_context(alone_with(item.path.with_suffix("")))
            elif item.path == root / "scratch":
                for work in sorted(lock.parent for lock in item.path.glob("*/lock")):
                    held.enter_context(exclusive_lock(work))
                for unfinished in sorted(item.path.rglob(f"*{UNFINISHED}")):
                    held.enter_context(alone_with(unfinished.with_suffix("")))
        for item in items:
            if item.path.is_dir():
                shutil.rmtree(item.path)
            else:
                item.path.unlink(missing_ok=True)
    return sum(item.size for item in items)


def _below(folder: Path, pattern: str) -> Iterator[Path]:
    """Files and folders of that name below `folder`, not inside environments, and no deeper where one is found."""
    for path in sorted(folder.iterdir()):
        if path.match(pattern):
            yield path
        elif path.is_dir() and not path.is_symlink() and path.name not in NOT_OURS and not is_environment(path):
            yield from _below(path, pattern)


def _is_ours(path: Path) -> bool:
    """Whether it begins as Unfinished begins, with an object that says what made it, or is a fit halfway: a download of the same name stays."""
    if path.is_dir():
        return (path / MADE_WITH).is_file()
    try:
        with path.open(encoding="utf-8") as file:
            head = parse_json(file.readline(1_000_000).encode(), str(path))
        return isinstance(head, dict) and (set(head) == {"fingerprint"} or {"honesty", "identity"} <= set(head))
    except (OSError, ValueError):  # a BadFile is a ValueError
        return False


def _size(path: Path) -> int:
    return sum(file.lstat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.lstat().st_size
