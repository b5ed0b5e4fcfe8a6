"""One SQLite file with all answers and all calls, shared by processes, whole after a kill at any moment.

Every statement is small and runs in the event loop's thread: tens of microseconds against the seconds of a call. A commit survives the
death of the process; after a power cut the last ones may be missing, but the file is whole. WAL does not work on network drives.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from components.files import BadFile

_VERSION = 2  # of the tables, and of what the digest of a request covers
_BUSY_TIMEOUT_S = 30.0
_TABLES = (
    "CREATE TABLE answers (digest TEXT PRIMARY KEY, request TEXT NOT NULL, answer TEXT NOT NULL)",
    "CREATE TABLE calls (id INTEGER PRIMARY KEY, run TEXT NOT NULL, model TEXT NOT NULL, outcome TEXT NOT NULL, is_retry INTEGER NOT NULL,"
    " tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, seconds REAL, money REAL, money_at_most REAL NOT NULL)",
    "CREATE INDEX calls_of_run ON calls (run)",
    "CREATE TABLE spending (money_at_most REAL NOT NULL)",  # one row: the sum over calls
    "INSERT INTO spending VALUES (0.0)",
    f"PRAGMA user_version = {_VERSION}",
)


class Database:
    """A connection with our tables. Errors of SQLite become BadFile, which names the file and says what to do."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self.name = name

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection, None, None]:
        """One transaction: all of it or nothing, and nobody else writes in between."""
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection, None, None]:
        try:
            yield self._connection
        except sqlite3.Error as error:
            raise BadFile(f"{self.name}: {error}; is the disk full, or the file on a network drive or damaged?") from error

    def close(self) -> None:
        self._connection.close()


def open_database(path: Path) -> Database:
    """Open `path` for reading and writing; made where there is none. Raises BadFile for anything but our file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return _opened(str(path), str(path))


def open_for_replay(path: Path) -> Database:
    """Open `path` for reading only: not a byte of it changes. Raises BadFile when it is missing or not ours."""
    if not path.is_file():
        raise BadFile(f"{path}: no such file, so there is nothing to replay; run once without replay to record it")
    # Without a write-ahead log nobody has it open, and an immutable file needs no lock files beside it.
    mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    return _opened(f"file:{quote(str(path.absolute()))}?{mode}", str(path), is_read_only=True)


def memory_database() -> Database:
    """Tables that live as long as the process."""
    return _opened(":memory:", "memory")


def _opened(address: str, name: str, *, is_read_only: bool = False) -> Database:
    connection = sqlite3.connect(address, timeout=_BUSY_TIMEOUT_S, isolation_level=None, uri=is_read_only)
    database = Database(connection, name)
    try:
        with database.reading():
            has_tables = _has_tables(connection, name)
            if is_read_only and not has_tables:
                raise BadFile(f"{name}: empty, so there is nothing to replay")
            if not is_read_only:
                with suppress(sqlite3.OperationalError):  # locked: another process makes the same switch, which lasts
                    connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
        if not has_tables:
            with database.writing():
                for statement in () if _has_tables(connection, name) else _TABLES:
                    connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return database


def _has_tables(connection: sqlite3.Connection, name: str) -> bool:
    """False for a new file; raises BadFile for another program's file, or that of another version."""
    # In this order: another process may make the tables, and with them the version, in between.
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return False
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != _VERSION:
        raise BadFile(f"{name}: not a file of answers of version {_VERSION} (it says {version}); name another file")
    return True
