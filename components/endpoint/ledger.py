"""Every call that was begun, what came of it and what it cost; and the budget, kept before a call is made.

A call is entered with the most that it can cost, and corrected when its cost is known. What is never corrected (the process was killed,
the answer never came, or came broken) stays at its most: `money` is what is known to be spent, `money_at_most` what may have been.
"""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from components.endpoint.chat import BudgetExceeded, ChatAnswer, ChatRequest, EndpointRefused
from components.endpoint.database import Database
from components.endpoint.faults import Hiccup
from components.endpoint.prices import Price, money_at_most

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


class Ledger:
    """Totals over the whole life of the file, or over those calls that were made under the name `run`."""

    def __init__(self, database: Database, prices: Mapping[str, Price], budget: float | None, run: str) -> None:
        self._database = database
        self._prices = prices
        self._budget = budget
        self._run = run

    def check(self, request: ChatRequest) -> None:
        """Raise BudgetExceeded if a call could not be made now, for callers who would wait before they make it."""
        at_most = self._worst_case(request)
        if self._budget is not None and self._spent_at_most() + at_most > self._budget:
            raise self._exceeded(request, at_most)

    @contextmanager
    def call(self, request: ChatRequest, *, is_retry: bool) -> Generator[Entry, None, None]:
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
        with self._database.writing() as connection:
            connection.execute(_INSERT, (self._run, model, _CACHED, False, 0.0))

    def summary(self, *, of_this_run: bool = False) -> dict[str, float]:
        """Numbers for a tracker: totals, `failed/<kind>`, and `<model>/seconds_{p50,p95,max}` of the answered calls."""
        where, run = ("run = ?", (self._run,)) if of_this_run else ("true", ())
        with self._database.reading() as connection:
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
        if self._budget is not None or spent:
            parts.append(f"cost {spent:.4f}" + ("" if self._budget is None else f" of {self._budget:.4f}"))
        if seconds := sorted(value for model in self._seconds_of("run = ?", (self._run,)).values() for value in model):
            parts.append(f"p50 {percentile(seconds, 50):.1f} s, p95 {percentile(seconds, 95):.1f} s")
        return ", ".join(parts)

    def _seconds_of(self, where: str, run: tuple[str, ...]) -> dict[str, list[float]]:
        """Of the answered calls of each model, ascending."""
        query = f"SELECT model, seconds FROM calls WHERE {where} AND outcome = ? ORDER BY model, seconds"
        with self._database.reading() as connection:
            rows = connection.execute(query, (*run, _ANSWERED)).fetchall()
        return {model: [seconds for _, seconds in group] for model, group in groupby(rows, key=itemgetter(0))}

    def _begun(self, request: ChatRequest, is_retry: bool) -> Entry:
        at_most = self._worst_case(request)
        with self._database.writing() as connection:
            if not connection.execute(_RESERVE, {"worst": at_most, "budget": self._budget}).rowcount:
                raise self._exceeded(request, at_most)
            number = connection.execute(_INSERT, (self._run, request.model, _BEGUN, is_retry, at_most)).lastrowid
        return Entry(self._database, number or 0, self._prices.get(request.model), at_most)

    def _worst_case(self, request: ChatRequest) -> float:
        at_most = money_at_most(request, self._prices)
        if at_most is None and self._budget is not None:
            raise BudgetExceeded(f"{request.model!r} has no price, so the budget cannot be kept: add it to the prices")
        return at_most or 0.0

    def _exceeded(self, request: ChatRequest, at_most: float) -> BudgetExceeded:
        return BudgetExceeded(
            f"the budget is {self._budget:.4f}, up to {self._spent_at_most():.4f} is spent, and the next call of {request.model!r} may cost "
            f"{at_most:.4f}; raise the budget and run again: answered calls are kept"
        )

    def _spent_at_most(self) -> float:
        with self._database.reading() as connection:
            return float(connection.execute("SELECT money_at_most FROM spending").fetchone()[0])


@dataclass(frozen=True)
class Entry:
    """A call that was begun."""

    database: Database
    number: int
    price: Price | None
    at_most: float

    def answered(self, answer: ChatAnswer) -> None:
        is_known = self.price is not None and bool(answer.tokens_in or answer.tokens_out)
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
