"""What the lines of `dvc repro` mean: which are only advice, how a stage came out, and why it failed.

Is what a stage left in the folder what dvc.lock says of it? And is dvc.lock whole?
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from rlver.components.domain.files import BadFile, read_yaml, write_bytes_atomically
from rlver.tasks.runtime.stage import TEMPORARY_FAILURE

Outcome = Literal["ran", "restored", "unchanged"]
WITHOUT_LOCK = "`git checkout dvc.lock`, or delete it: then DVC takes from its cache what is there and runs the rest again"
AT_WORK = "another DVC process is at work in this folder; wait for it to end"

# What it says after every stage about git and remotes; it is no part of a stage's output.
HINTS = (
    "To track the changes with git",
    "\tgit add",
    "To enable auto staging",
    "\tdvc config core.autostage",
    "Use `dvc push`",
    "Generating lock file",
    "Updating lock file",
)


class StageFailed(RuntimeError):
    """A stage did not succeed. `temporary` says whether the same command may succeed later."""

    def __init__(self, stage: str, reason: str, temporary: bool) -> None:
        super().__init__(f"{stage}: {reason}")
        self.temporary = temporary


def outcome(said: Sequence[str]) -> Outcome:
    """How a stage that did not fail came out."""
    if any("didn't change, skipping" in line for line in said):
        return "unchanged"
    return "restored" if any("is cached - skipping run" in line for line in said) else "ran"


def failure(stage: str, status: int, said: Sequence[str]) -> StageFailed:
    """DVC folds every failure into its exit status 255; the stage's own status stands in DVC's message."""
    text = "\n".join(said)
    match = re.search(r"^ERROR: .*exited with (-?\d+)", text, re.MULTILINE)
    code = int(match.group(1)) if match else min(status, 1)
    if code < 0 or 128 < code < 160:
        number = -code if code < 0 else code - 128
        return StageFailed(stage, f"ended by signal {number}{' (out of memory?)' if number == 9 else ''}", temporary=number not in (2, 15))
    if "Unable to acquire lock" in text or "is busy, it is being" in text:
        return StageFailed(stage, AT_WORK, temporary=True)
    if damaged := next((line for line in said if "dvc.lock' is invalid" in line or "dvc.lock' validation failed" in line), None):
        return StageFailed(stage, f"{damaged.removeprefix('ERROR: ')} {WITHOUT_LOCK}", temporary=False)
    own = [line for line in said if line.startswith("error: ")]
    dvc = [line for line in said if line.startswith("ERROR: ")]
    other = [line for line in said if not line.startswith(("ERROR: ", "> "))]
    reason = (own or ([] if match else dvc) or other or dvc or [f"exit status {status}"])[-1]
    return StageFailed(stage, reason.removeprefix("error: ").removeprefix("ERROR: "), temporary=code == TEMPORARY_FAILURE)


OBJECTS = Path("files") / "md5"  # in DVC's cache
_WHOLE = re.compile(r"[0-9a-f]{30}(\.dir)?")  # names of files of the cache; what is still being written has others
KEPT = Path(".dvc") / "tmp" / "before"  # / path of a dvc.lock / name of the stage under way


def md5_of(path: Path, left_out: Container[Path] = ()) -> str:
    """As DVC records it; of a folder, that of the list of its files."""
    if path.is_dir():
        files = sorted((file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file() and file not in left_out)
        listed = [{"md5": md5_of(file), "relpath": name} for name, file in files]
        return hashlib.md5(json.dumps(listed).encode(), usedforsecurity=False).hexdigest() + ".dir"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def differing(root: Path, outputs: Mapping[str, str]) -> list[str]:
    """Those of `outputs` (path: MD5) that are there with other content. What .dvcignore names is none of it."""
    return [path for path, md5 in sorted(outputs.items()) if (root / path).exists() and not _is(root, root / path, md5)]


def _is(root: Path, path: Path, md5: str) -> bool:
    if md5_of(path) == md5:
        return True
    ignored = _ignored(root, path) if path.is_dir() else set()
    return bool(ignored) and md5_of(path, ignored) == md5


def _ignored(root: Path, folder: Path) -> set[Path]:
    """The files in `folder` that DVC passes over."""
    from dvc.fs import LocalFileSystem
    from dvc.ignore import DvcIgnoreFilter

    files = LocalFileSystem()
    kept = {Path(found) for found in DvcIgnoreFilter(files, str(root.resolve())).find(files, str(folder.resolve()))}
    here = folder.resolve()  # not of each file, which may be a link into the cache
    return {file for file in folder.rglob("*") if file.is_file() and here / file.relative_to(folder) not in kept}


def mend(root: Path, outputs: Mapping[str, str]) -> list[str]:
    """Take away those of `outputs` (path: MD5) that have other content, and every damaged file of the cache; their paths from the root.

    What is taken away is made again by the next run, and by nothing else: it was never right. What another process writes just now stays.
    """
    wrong = differing(root, outputs)
    if wrong:
        for file in objects(root).glob("??/*"):
            if _WHOLE.fullmatch(file.name) and md5_of(file) != (file.parent.name + file.name).removesuffix(".dir"):
                file.unlink()
    for path in wrong:
        shutil.rmtree(root / path) if (root / path).is_dir() else (root / path).unlink()
    return wrong


def objects(root: Path) -> Path:
    """The files of DVC's cache, which may lie elsewhere (`dvc cache dir`)."""
    from dvc.config import Config

    named = Config(str(root / ".dvc"), validate=False).get("cache", {}).get("dir")
    return (Path(named) if named else root / ".dvc" / "cache") / OBJECTS


@contextmanager
def lock_kept(root: Path, stage: str) -> Iterator[None]:
    """Keep a copy of the stage's dvc.lock while DVC may write it; only a run, or a DVC, that was killed leaves the copy behind."""
    pipeline, _, name = stage.rpartition(":")
    lock = Path(pipeline or "dvc.yaml").with_suffix(".lock")
    copy = root / KEPT / lock / name
    if (root / lock).is_file() and (_is_whole(root / lock) or not copy.is_file()):
        write_bytes_atomically(copy, (root / lock).read_bytes())
    try:
        yield
    finally:
        if _is_whole(root / lock) or not (root / lock).is_file():
            copy.unlink(missing_ok=True)


def put_back(root: Path, lock: Path) -> bool:
    """Give `lock`, a path from the root, its content from before the run that was killed; False where there was none, and for one that git merged.

    The last copy that is whole: one may have been taken while DVC was writing, for another stage.
    """
    if b"<<<<<<<" in (root / lock).read_bytes():  # no run has left it so, and both sides are worth something
        return False
    copies = [copy for copy in (root / KEPT / lock).glob("*") if not copy.name.startswith(".")]  # with a dot: a copy that was never ended
    for copy in sorted(copies, key=lambda copy: copy.stat().st_mtime_ns, reverse=True):
        if _is_whole(copy):
            copy.replace(root / lock)
            return True
    return False


def _is_whole(lock: Path) -> bool:
    try:
        return all({"cmd", "outs"} <= set(stage) for stage in read_yaml(lock)["stages"].values())
    except (BadFile, KeyError, TypeError, AttributeError):
        return False
