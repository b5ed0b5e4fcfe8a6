"""Is what a stage left in the folder what dvc.lock says of it? And is dvc.lock whole?

DVC trusts every file of its cache by name alone. One that a full disk or a power cut left damaged is not only restored: when its stage
runs again, what it makes is replaced by the damaged file, because the cache seems to have it already. And it writes dvc.lock in place, so
that a kill in the middle of that leaves a part of it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from components.files import write_bytes_atomically

OBJECTS = Path(".dvc") / "cache" / "files" / "md5"
KEPT = Path(".dvc") / "tmp" / "before"  # / path of a dvc.lock / name of the stage under way


def md5_of(path: Path) -> str:
    """As DVC records it; of a folder, that of the list of its files."""
    if path.is_dir():
        files = sorted((file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file())
        listed = [{"md5": md5_of(file), "relpath": name} for name, file in files]
        return hashlib.md5(json.dumps(listed).encode(), usedforsecurity=False).hexdigest() + ".dir"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def mend(root: Path, outputs: Mapping[str, str]) -> list[str]:
    """Take away those of `outputs` (path: MD5) that have other content, and every damaged file of the cache; their paths from the root.

    What is taken away is made again by the next run, and by nothing else: it was never right.
    """
    wrong = [path for path, md5 in sorted(outputs.items()) if (root / path).exists() and md5_of(root / path) != md5]
    if wrong:
        for file in [file for file in (root / OBJECTS).glob("??/*") if md5_of(file) != (file.parent.name + file.name).removesuffix(".dir")]:
            file.unlink()
    for path in wrong:
        shutil.rmtree(root / path) if (root / path).is_dir() else (root / path).unlink()
    return wrong


@contextmanager
def lock_kept(root: Path, stage: str) -> Iterator[None]:
    """Keep a copy of the stage's dvc.lock while DVC may write it; only a run that was killed leaves the copy behind."""
    pipeline, _, name = stage.rpartition(":")
    lock = Path(pipeline or "dvc.yaml").with_suffix(".lock")
    copy = root / KEPT / lock / name
    if (root / lock).is_file():
        write_bytes_atomically(copy, (root / lock).read_bytes())
    try:
        yield
    finally:
        copy.unlink(missing_ok=True)


def put_back(root: Path, lock: Path) -> bool:
    """Give `lock`, a path from the root, its content from before the run that was killed; False where there was none."""
    copies = sorted((root / KEPT / lock).glob("*"), key=lambda copy: copy.stat().st_mtime_ns)
    if copies:
        copies[-1].replace(root / lock)
    return bool(copies)
