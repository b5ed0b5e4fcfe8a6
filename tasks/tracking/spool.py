"""What MLflow has not got yet, on disk: one folder a run, written while the stage works and removed when MLflow has all of it.

Nothing here talks to a tracker. An entry is three things: `head.json` (what run it is), `points.jsonl` (metrics, append-only) and, once the
stage has ended, `end.json` (how, and what it left). `sent.json` says which MLflow run it became and how far it was sent; it is a saving, not
the truth: MLflow keeps one copy of a metric with the same name, step, value and time, so points that are sent twice are there once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import psutil

from rlver.components.domain.files import BadFile, write_json
from rlver.tasks.tracking.records import File, StageRecord

PIPELINE = "pipeline"


class SpoolReading(NamedTuple):
    """One value of a metric; `at_ms` is the time of the measurement, in milliseconds since 1970."""

    name: str
    step: int
    value: float
    at_ms: int


@dataclass(frozen=True)
class SpoolHead:
    """What is known of a run when it begins. `parent`: the entry of its pipeline run; `process`: who writes it (pid, start time)."""

    name: str
    parent: str | None
    tags: Mapping[str, str]
    began_ms: int
    process: tuple[int, float]


@dataclass(frozen=True)
class End:
    """How a run ended, with MLflow's word for it. `record`: what its stage left; None when it failed. `forget`: it never ran at all."""

    status: str
    ended_ms: int
    tags: Mapping[str, str]
    record: StageRecord | None
    stamps: Mapping[str, str] = field(default_factory=dict)  # of the record's files, by name
    forget: bool = False


class SpoolEntry:
    """One run in the spool. One process writes it; any process may send it, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def identity(self) -> str:
        return self.folder.name

    @property
    def exists(self) -> bool:
        return (self.folder / "head.json").is_file()

    @property
    def head(self) -> SpoolHead:
        with self._of_this_version():
            values = _read(self.folder / "head.json")
            return SpoolHead(**{**values, "process": tuple(values["process"])})

    @property
    def end(self) -> End | None:
        """None while its stage works."""
        path = self.folder / "end.json"
        if not path.is_file():
            return None
        with self._of_this_version():
            values = _read(path)
            return End(**{**values, "record": _record(values["record"]) if values["record"] else None})

    @contextlib.contextmanager
    def _of_this_version(self) -> Iterator[None]:
        try:
            yield
        except (TypeError, KeyError) as error:
            raise BadFile(
                f"{self.folder} was written by another version of rlver ({error}); send it with that one, or delete it"
            ) from error

    @property
    def abandoned(self) -> bool:
        """Whether its writer is gone without having ended it."""
        pid, started = self.head.process
        try:
            gone = abs(psutil.Process(pid).create_time() - started) > 1.0  # the number now belongs to somebody else
        except psutil.Error:
            gone = True
        return gone and not (self.folder / "end.json").is_file()  # looked at last: it may have ended it and gone meanwhile

    def add(self, readings: Iterable[SpoolReading]) -> None:
        text = "".join(json.dumps(reading) + "\n" for reading in readings)
        if text:
            with (self.folder / "points.jsonl").open("a+b") as file:
                if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":  # the end of a write that broke off
                    text = f"\n{text}"
                file.write(text.encode())

    def close(self, end: End) -> None:
        values = asdict(replace(end, record=None))
        write_json(self.folder / "end.json", {**values, "record": _plain(end.record) if end.record else None})

    def readings(self, start: int = 0) -> Iterator[tuple[SpoolReading, int]]:
        """The readings from byte `start` on, each with the byte after it. A line that is still being written is left for later."""
        path = self.folder / "points.jsonl"
        if not path.is_file():
            return
        with path.open("rb") as file:
            file.seek(start)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                start += len(line)
                try:
                    reading = SpoolReading(*json.loads(line))
                except (ValueError, TypeError):  # a write that broke off, on a full disk
                    continue
                yield reading, start

    @property
    def sent(self) -> tuple[str | None, int]:
        """The MLflow run it became, and up to which byte its readings were sent."""
        path = self.folder / "sent.json"
        if not path.is_file():
            return None, 0
        values = _read(path)
        return str(values["run"]), int(values["upto"])

    def mark_sent(self, run: str, upto: int) -> None:
        write_json(self.folder / "sent.json", {"run": run, "upto": upto})

    def remove(self) -> None:
        """Its head goes first, so that a removal that was broken off leaves no entry."""
        (self.folder / "head.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


class Spool:
    """The entries of one project for one tracker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, name: str, parent: str | None, tags: Mapping[str, str]) -> SpoolEntry:
        """A new entry; entries sort by the time they began."""
        entry = SpoolEntry(self.folder / f"{datetime.now(UTC).timestamp():020.6f}-{uuid4().hex[:8]}")
        process = (os.getpid(), psutil.Process().create_time())
        write_json(entry.folder / "head.json", asdict(SpoolHead(name, parent, dict(tags), now_ms(), process)))
        return entry

    def entries(self) -> list[SpoolEntry]:
        """All entries, in the order in which they began: a pipeline run before its stages."""
        found = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return [entry for path in found if (entry := SpoolEntry(path)).exists]

    def has(self, name: str, outputs: str) -> bool:
        """Whether a run of this name with these outputs waits to be sent."""
        for entry in self.entries():
            with contextlib.suppress(FileNotFoundError):  # it has just been sent
                if entry.head.name == name and (end := entry.end) and end.tags.get("outputs") == outputs:
                    return True
        return False

    @contextlib.contextmanager
    def only_sender(self) -> Iterator[bool]:
        """Whether this process may send now; False while another one does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".sending").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True


def stamp(path: Path) -> str:
    """What changes when a file or folder is written anew; empty when there is none. Nothing is read: a model may be large."""
    stats = [one.stat() for one in (path.rglob("*") if path.is_dir() else (path,) if path.is_file() else ())]
    return f"{len(stats)} {sum(one.st_size for one in stats)} {max(one.st_mtime_ns for one in stats)}" if stats else ""


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def _read(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values


def _plain(record: StageRecord) -> dict[str, Any]:
    """JSON of a record; its curves are among the readings."""
    values = {one.name: getattr(record, one.name) for one in fields(record)}
    files = {name: [(str(path), *rest) for path, *rest in values[name]] for name in StageRecord.FILES}
    return {**values, **{name: dict(values[name]) for name in ("md5s", "parameters", "metrics")}, **files, "curves": ()}


def _record(values: dict[str, Any]) -> StageRecord:
    def files(rows: list[list[str]]) -> tuple[File, ...]:
        return tuple(File(Path(path), name, md5) for path, name, md5 in rows)

    of_files = {name: files(rows) for name, rows in values.items() if name in StageRecord.FILES}
    return StageRecord(**{**values, **of_files, "curves": ()})
