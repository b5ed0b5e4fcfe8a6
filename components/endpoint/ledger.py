"""Every call that was begun, what came of it and what it cost; and the budget, kept before a call is made.

A call is entered with the most that it can cost, and corrected when its cost is known. What is never corrected (the process was killed,
the answer never came, or came broken) stays at its most: `money` is what is known to be spent, `money_at_most` what may have been.

One SQLite file with all answers and all calls, shared by processes, whole after a kill at any moment.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from urllib.parse import quote

from rlver.components.domain.files import BadFile
from rlver.components.endpoint.chat import BudgetExceeded, ChatAnswer, ChatRequest, EndpointRefused, Hiccup
from rlver.components.endpoint.parameters import Price, money_at_most

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
    # Dialogues are held in a thread of their own by train.max_staleness and trl-async; SQLite itself serialises what threads ask.
    try:
        connection = sqlite3.connect(address, timeout=_BUSY_TIMEOUT_S, isolation_level=None, uri=is_read_only, check_same_thread=False)
    except sqlite3.Error as error:
        raise BadFile(f"{name}: {error}; is it a folder, or may you not read and write it?") from error
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


_BEGUN, _ANSWERED, _CACHED, _REFUSED = "begun", "answered", "cached", "refused"
_TOTALS = f"""SELECT
    total(outcome != '{_CACHED}') AS calls, total(outcome = '{_ANSWERED}') AS answered, total(is_retry) AS retries,
    total(outcome = '{_CACHED}') AS cache_hits, total(tokens_in) AS tokens_in, total(tokens_out) AS tokens_out,
    total(money) AS money, total(money_at_most) AS money_at_most, total(outcome = '{_ANSWERED}' AND money IS NULL) AS unpriced_calls
    FROM calls WHERE """
_INSERT = "INSERT INTO calls (run, model, outcome, is_retry, tokens_in, tokens_out, money_at_most) VALUES (?, ?, ?, ?, 0, 0, ?)"
_UPDATE = "UPDATE calls SET outcome = ?, tokens_in = ?, tokens_out = ?, seconds = ?, money = ?, money_at_most = ? WHERE id = ?"
# The check and the reservation are one statement, so that the budget also holds between processes.
_RESERVE = """UPDATE spending SET money_at_most = money_at_most + :worst
    WHERE :budget IS NULL OR money_at_most + :worst <= :budget"""


@dataclass(frozen=True)
class Ledger:
    """Totals over the whole life of the file, or over those calls that were made under the name `run`."""

    database: Database
    prices: Mapping[str, Price]
    budget: float | None
    run: str
    currency: str

    def check(self, request: ChatRequest) -> None:
        """Raise BudgetExceeded if a call could not be made now, for callers who would wait before they make it."""
        at_most = self._worst_case(request)
        if self.budget is not None and self._spent_at_most() + at_most > self.budget:
            raise self._exceeded(request, at_most)

    @contextmanager
    def call(self, request: ChatRequest, *, is_retry: bool) -> Generator[LedgerEntry, None, None]:
        """Make one call inside. Raises BudgetExceeded, before it is made, when its worst case does not fit into the budget."""
        entry = self._begun(request, is_retry)
        try:
            yield entry
        except Hiccup as hiccup:
            entry.failed(hiccup.kind, may_have_cost=hiccup.may_have_cost)
            raise
        except EndpointRefused:
            entry.failed(_REFUSED, may_have_cost=False)
            raise

    def cached(self, model: str) -> None:
        """An answer came from the store, or from an identical call in flight."""
        with self.database.writing() as connection:
            connection.execute(_INSERT, (self.run, model, _CACHED, False, 0.0))

    def summary(self, *, of_this_run: bool = False) -> dict[str, float]:
        """Numbers for a tracker: totals, `failed/<kind>`, and `<model>/seconds_{p50,p95,max}` of the answered calls."""
        where, run = ("run = ?", (self.run,)) if of_this_run else ("true", ())
        with self.database.reading() as connection:
            totals = connection.execute(_TOTALS + where, run)
            numbers = dict(zip((column[0] for column in totals.description), totals.fetchone(), strict=True))
            failed = connection.execute(
                f"SELECT outcome, count(*) FROM calls WHERE {where} AND outcome NOT IN (?, ?, ?) GROUP BY outcome ORDER BY outcome",
                (*run, _BEGUN, _ANSWERED, _CACHED),
            ).fetchall()
        numbers |= {f"failed/{kind}": float(count) for kind, count in failed}
        for model, seconds in self._seconds_of(where, run).items():
            name = re.sub(r"[^\w.-]+", "-", model).strip("-.")
            numbers |= {f"{name}/seconds_p50": percentile(seconds, 50), f"{name}/seconds_p95": percentile(seconds, 95)}
            numbers[f"{name}/seconds_max"] = seconds[-1]
        return numbers

    def line(self) -> str:
        """For a progress bar: the calls of this run, and the most that was spent over the whole file, which the budget bounds."""
        now = self.summary(of_this_run=True)
        parts = [f"{now['calls']:,.0f} calls", f"{now['retries']:,.0f} retries", f"{now['cache_hits']:,.0f} cached"]
        parts.append(f"{now['tokens_in']:,.0f}+{now['tokens_out']:,.0f} tokens")
        spent = self._spent_at_most()
        of = "" if self.budget is None else f" of {self.budget:.4f}"
        if of or spent:
            parts.append(f"cost {spent:.4f}{of}" + (self.currency and f" {self.currency}"))
        if seconds := sorted(value for model in self._seconds_of("run = ?", (self.run,)).values() for value in model):
            parts.append(f"p50 {percentile(seconds, 50):.1f} s, p95 {percentile(seconds, 95):.1f} s")
        return ", ".join(parts)

    def _seconds_of(self, where: str, run: tuple[str, ...]) -> dict[str, list[float]]:
        """Of the answered calls of each model, ascending."""
        query = f"SELECT model, seconds FROM calls WHERE {where} AND outcome = ? ORDER BY model, seconds"
        with self.database.reading() as connection:
            rows = connection.execute(query, (*run, _ANSWERED)).fetchall()
        return {model: [seconds for _, seconds in group] for model, group in groupby(rows, key=itemgetter(0))}

    def _begun(self, request: ChatRequest, is_retry: bool) -> LedgerEntry:
        at_most = self._worst_case(request)
        with self.database.writing() as connection:
            if not connection.execute(_RESERVE, {"worst": at_most, "budget": self.budget}).rowcount:
                raise self._exceeded(request, at_most)
            number = connection.execute(_INSERT, (self.run, request.model, _BEGUN, is_retry, at_most)).lastrowid
        return LedgerEntry(self.database, number or 0, self.prices.get(request.model), at_most)

    def _worst_case(self, request: ChatRequest) -> float:
        at_most = money_at_most(request, self.prices)
        if at_most is None and self.budget is not None:
            raise BudgetExceeded(f"{request.model!r} has no price, so the budget cannot be kept: add it to the prices")
        return at_most or 0.0

    def _exceeded(self, request: ChatRequest, at_most: float) -> BudgetExceeded:
        return BudgetExceeded(
            f"the budget is {self._money(self.budget or 0.0)}, up to {self._money(self._spent_at_most())} is spent, and the next call of "
            f"{request.model!r} may cost {self._money(at_most)}; raise the budget and run again: answered calls are kept"
        )

    def _money(self, amount: float) -> str:
        return f"{amount:.4f}" + (self.currency and f" {self.currency}")

    def _spent_at_most(self) -> float:
        with self.database.reading() as connection:
            return float(connection.execute("SELECT money_at_most FROM spending").fetchone()[0])


@dataclass(frozen=True)
class LedgerEntry:
    """A call that was begun."""

    database: Database
    number: int
    price: Price | None
    at_most: float

    def answered(self, answer: ChatAnswer) -> None:
        is_known = self.price is not None and answer.tokens_in > 0 and (answer.tokens_out > 0 or not (answer.text or answer.reasoning))
        money = self.price.of(answer.tokens_in, answer.tokens_out) if self.price is not None and is_known else None
        at_most = self.at_most if money is None else money
        self._end((_ANSWERED, answer.tokens_in, answer.tokens_out, answer.seconds, money), at_most)

    def failed(self, kind: str, *, may_have_cost: bool) -> None:
        self._end((kind, 0, 0, None, None), self.at_most if may_have_cost else 0.0)

    def _end(self, values: tuple[str, int, int, float | None, float | None], at_most: float) -> None:
        with self.database.writing() as connection:
            connection.execute(_UPDATE, (*values, at_most, self.number))
            connection.execute("UPDATE spending SET money_at_most = money_at_most + ?", (at_most - self.at_most,))


def percentile(ascending: Sequence[float], percent: int) -> float:
    """The smallest value that at least `percent` of 100 values do not exceed (nearest rank)."""
    return ascending[math.ceil(len(ascending) * percent / 100) - 1]
