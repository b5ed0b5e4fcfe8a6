"""What MLflow has not got yet, on disk: one folder a run, written while the stage works and removed when MLflow has all of it.

Nothing here talks to a tracker. An entry is three things: `head.json` (what run it is), `points.jsonl` (metrics, append-only) and, once the
stage has ended, `end.json` (how, and what it left). `sent.json` says which MLflow run it became and how far it was sent; it is a saving, not
the truth: MLflow keeps one copy of a metric with the same name, step, value and time, so points that are sent twice are there once.
Its writer holds the system's lock on `writer` as long as it lives. Unlike the number of a process, that means the same inside a container.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, ValidationError

from rlver.components.domain.files import BadFile, write_json
from rlver.tasks.tracking.records import StageRecord

PIPELINE = "pipeline"
WRITER = "writer"


class SpoolReading(NamedTuple):
    """One value of a metric; `at_ms` is the time of the measurement, in milliseconds since 1970."""

    name: str
    step: int
    value: float
    at_ms: int


class SpoolHead(BaseModel):
    """What is known of a run when it begins. `parent`: the entry of its pipeline run; `process`: of entries of earlier versions, not used."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    parent: str | None
    tags: Mapping[str, str]
    began_ms: int
    process: tuple[int, float] | None = None


class SpoolEnd(BaseModel):
    """How a run ended, with MLflow's word for it. `record`: what its stage left; None when it failed. `forget`: it never ran at all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: str
    ended_ms: int
    tags: Mapping[str, str] = {}
    record: StageRecord | None = None
    forget: bool = False


SpoolFile = TypeVar("SpoolFile", SpoolHead, SpoolEnd)


class SpoolEntry:
    """One run in the spool. One process writes it; any process may send it, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: int | None = None  # a descriptor, which lives as long as the process, whoever forgets the entry

    @property
    def identity(self) -> str:
        return self.folder.name

    @property
    def exists(self) -> bool:
        return (self.folder / "head.json").is_file()

    @property
    def head(self) -> SpoolHead:
        return self._read("head.json", SpoolHead)

    @property
    def end(self) -> SpoolEnd | None:
        """None while its stage works."""
        return self._read("end.json", SpoolEnd) if (self.folder / "end.json").is_file() else None

    def _read(self, name: str, kind: type[SpoolFile]) -> SpoolFile:
        try:
            return kind.model_validate_json((self.folder / name).read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            why = f"{'.'.join(map(str, first['loc'])) or name}: {first['msg']}"
            raise BadFile(f"{self.folder} was written by another version of rlver ({why}); send it with that one, or delete it") from error

    @property
    def abandoned(self) -> bool:
        """Whether its writer is gone without having ended it."""
        try:
            with (self.folder / WRITER).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except FileNotFoundError:  # of an earlier version, or it has just been sent
            pass
        return self.exists and not (self.folder / "end.json").is_file()  # looked at last: it may have ended it and gone meanwhile

    def hold(self) -> None:
        """Be its writer until it is closed or the process ends."""
        self.folder.mkdir(parents=True)
        self._lock = os.open(self.folder / WRITER, os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def add(self, readings: Iterable[SpoolReading]) -> None:
        text = "".join(json.dumps(reading) + "\n" for reading in readings)
        if text:
            with (self.folder / "points.jsonl").open("a+b") as file:
                if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":  # the end of a write that broke off
                    text = f"\n{text}"
                file.write(text.encode())

    def close(self, status: str, **known: Any) -> None:
        """It has ended, now unless `ended_ms` is among what is known of it (the fields of SpoolEnd)."""
        end = SpoolEnd(**{"status": status, "ended_ms": now_ms(), **known})
        write_json(self.folder / "end.json", end.model_dump(mode="json"))
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

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
        values = json.loads(path.read_bytes())
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

    @classmethod
    def of(cls, root: Path, uri: str) -> Spool:
        """One folder for each tracker: what one has got another may not have."""
        return cls(root / "spool" / hashlib.sha256(uri.encode()).hexdigest()[:8])

    def begin(self, name: str, parent: str | None, tags: Mapping[str, str]) -> SpoolEntry:
        """A new entry; entries sort by the time they began."""
        entry = SpoolEntry(self.folder / f"{datetime.now(UTC).timestamp():020.6f}-{uuid4().hex[:8]}")
        entry.hold()
        head = SpoolHead(name=name, parent=parent, tags=tags, began_ms=now_ms())
        write_json(entry.folder / "head.json", head.model_dump(mode="json"))
        return entry

    def entries(self) -> list[SpoolEntry]:
        """All entries, in the order in which they began: a pipeline run before its stages."""
        found = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return [entry for path in found if (entry := SpoolEntry(path)).exists]

    def has(self, name: str, outputs: str) -> bool:
        """Whether a run of this name with these outputs waits to be sent, or one that is at work may yet get them."""
        for entry in self.entries():
            with contextlib.suppress(FileNotFoundError, BadFile):  # it has just been sent, or nobody can read it
                if entry.head.name != name:
                    continue
                if (end := entry.end) is None:
                    if not entry.abandoned:
                        return True
                elif end.tags.get("outputs") == outputs:
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


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)
