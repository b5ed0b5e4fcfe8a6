"""The one place where a call is tried again: with exponential back-off, full jitter, and an end.

Every attempt passes the same gates: a free slot, the rate caps and the pauses that the server asks for, the breaker, the budget.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from rlver.components.endpoint.chat import ChatAnswer, ChatEndpoint, ChatRequest, EndpointRefused, EndpointUnavailable, Hiccup
from rlver.components.endpoint.ledger import Ledger
from rlver.components.endpoint.parameters import EndpointParameters, tokens_in_at_most

logger = logging.getLogger(__name__)

_BYTES_PER_TOKEN = 3  # an estimate for the rate cap, on the careful side for English and Chinese; the answer corrects it


class RetryingEndpoint:
    """Asks until there is an answer, a refusal, or no attempt left."""

    def __init__(self, upstream: ChatEndpoint, parameters: EndpointParameters, ledger: Ledger) -> None:
        self._upstream = upstream
        self._parameters = parameters
        self._ledger = ledger
        self._slots = asyncio.Semaphore(parameters.concurrency)
        self._pace = Pace(parameters.requests_per_minute, parameters.tokens_per_minute)
        self._breaker = Breaker(parameters.url, parameters.breaker_failures, parameters.breaker_cool_down_s)
        self._random = random.Random(parameters.jitter_seed)

    async def chat(self, request: ChatRequest) -> ChatAnswer:
        """Raises EndpointUnavailable, EndpointRefused or BudgetExceeded."""
        failures = 0
        is_retry = False
        while True:
            try:
                return await self._attempt(request, is_retry)
            except Hiccup as error:
                hiccup = error
            is_retry = True
            if hiccup.server_is_well:
                continue
            failures += 1
            if failures == self._parameters.attempts:
                raise EndpointUnavailable(f"{self._parameters.url}: {hiccup.what}, {failures} times; {hiccup.advice}")
            if self._is_too_long(hiccup.pause_s):
                raise EndpointUnavailable(
                    f"{self._parameters.url}: {hiccup.what}, to be asked again in {hiccup.pause_s:.0f} s; {hiccup.advice}"
                )
            wait_s = self._back_off_s(failures)
            logger.info("%s: %s; trying again in %.1f s", self._parameters.url, hiccup.what, wait_s)
            async with self._breaker.waiting():
                await asyncio.sleep(wait_s)

    def _is_too_long(self, pause_s: float | None) -> bool:
        return pause_s is not None and pause_s > self._parameters.retry_after_most_s

    def _back_off_s(self, failures: int) -> float:
        """Uniform between 0 and a limit that doubles with every failure."""
        limit_s = min(self._parameters.backoff_most_s, self._parameters.backoff_first_s * 2.0 ** (failures - 1))
        return self._random.uniform(0.0, limit_s)

    async def _attempt(self, request: ChatRequest, is_retry: bool) -> ChatAnswer:
        expected_tokens = tokens_in_at_most(request) // _BYTES_PER_TOKEN + request.max_tokens
        async with self._breaker.waiting():
            await self._slots.acquire()
        try:
            self._ledger.check(request)
            async with self._breaker.waiting():
                await self._pace.wait(expected_tokens)
            try:
                with self._breaker.call(), self._ledger.call(request, is_retry=is_retry) as call:
                    answer = await self._upstream.chat(request)
                    call.answered(answer)
            except Hiccup as hiccup:
                if not hiccup.may_have_cost:
                    self._pace.settle(expected_tokens, 0)
                if hiccup.pause_s is not None and not self._is_too_long(hiccup.pause_s):
                    self._pace.hold(hiccup.pause_s)
                raise
            except EndpointRefused:
                self._pace.settle(expected_tokens, 0)
                raise
            if answer.tokens_in or answer.tokens_out:
                self._pace.settle(expected_tokens, answer.tokens_in + answer.tokens_out)
            return answer
        finally:
            self._slots.release()


@dataclass
class Breaker:
    """Stops asking a server that answers nothing, until it has cooled down and one call may try again."""

    url: str
    failures: int  # in a row, until it opens
    cool_down_s: float
    _in_a_row: int = 0
    _open_until_s: float | None = None  # of the loop's clock; None while closed
    _is_probing: bool = False
    _last: str = ""
    _waiting: set[asyncio.Timeout] = field(default_factory=set)

    def check(self) -> None:
        """Raise EndpointUnavailable unless a call may be made now."""
        if self._open_until_s is None:
            return
        left_s = self._open_until_s - asyncio.get_running_loop().time()
        if left_s > 0 or self._is_probing:
            raise self._unavailable()

    @asynccontextmanager
    async def waiting(self) -> AsyncGenerator[None, None]:
        """Wait inside for anything but the server; EndpointUnavailable ends the wait when the breaker opens."""
        self.check()
        try:
            async with asyncio.timeout(None) as deadline:
                self._waiting.add(deadline)
                try:
                    yield
                finally:
                    self._waiting.discard(deadline)
        except TimeoutError:
            raise self._unavailable() from None

    @contextmanager
    def call(self) -> Generator[None, None, None]:
        """Make one call inside; how it ends moves the breaker. Raises EndpointUnavailable while it is open."""
        self.check()
        is_probe = self._open_until_s is not None
        self._is_probing = self._is_probing or is_probe
        counted = self._in_a_row
        try:
            yield
        except Hiccup as hiccup:
            if hiccup.server_is_well:
                self._close()
            elif counted == self._in_a_row:
                self._count(hiccup)
            raise
        except EndpointRefused:
            self._close()
            raise
        else:
            self._close()
        finally:
            if is_probe:
                self._is_probing = False

    def _unavailable(self) -> EndpointUnavailable:
        return EndpointUnavailable(
            f"{self.url}: not asked any more for {self.cool_down_s:g} s after {self._in_a_row} failures in a row, the last: {self._last}"
        )

    def _close(self) -> None:
        self._in_a_row = 0
        self._open_until_s = None

    def _count(self, hiccup: Hiccup) -> None:
        self._in_a_row += 1
        self._last = f"{hiccup.what}; {hiccup.advice}"
        if self._in_a_row < self.failures:
            return
        now_s = asyncio.get_running_loop().time()
        self._open_until_s = now_s + self.cool_down_s
        waiting, self._waiting = self._waiting, set()
        for deadline in waiting:
            deadline.reschedule(now_s)


_BURST = 0.1


class Bucket:
    """A level that calls draw down and time fills up, by default without a limit. Times are seconds of any one clock."""

    def __init__(self, capacity: float = math.inf, per_second: float = 0.0) -> None:
        self._capacity = capacity
        self._per_second = per_second
        self._level = capacity
        self._at_s = 0.0

    def wait_s(self, amount: float, now_s: float) -> float:
        """How long until `amount` may be taken. More than the capacity may be taken when full, and is owed."""
        self._level = min(self._capacity, self._level + (now_s - self._at_s) * self._per_second)
        self._at_s = now_s
        missing = min(amount, self._capacity) - self._level
        return missing / self._per_second if missing > 1e-9 else 0.0

    def take(self, amount: float) -> None:
        """A negative amount gives back."""
        self._level = min(self._capacity, self._level - amount)


class Pace:
    """Lets callers pass in the order they came, as fast as the caps allow."""

    def __init__(self, requests_per_minute: float | None, tokens_per_minute: float | None) -> None:
        self._requests = Bucket(1, requests_per_minute / 60) if requests_per_minute else Bucket()
        self._tokens = Bucket(_BURST * tokens_per_minute, (1 - _BURST) * tokens_per_minute / 60) if tokens_per_minute else Bucket()
        self._not_before_s = 0.0
        self._turn = asyncio.Lock()

    async def wait(self, tokens: int) -> None:
        """Return when a request of about `tokens` tokens, in and out, may be sent."""
        clock = asyncio.get_running_loop().time
        async with self._turn:
            while (wait_s := self._wait_s(tokens, clock())) > 0:
                await asyncio.sleep(wait_s)
            self._requests.take(1)
            self._tokens.take(tokens)

    def settle(self, expected_tokens: int, used_tokens: int) -> None:
        """Replace what `wait` took for a request by what it used."""
        self._tokens.take(used_tokens - expected_tokens)

    def hold(self, pause_s: float) -> None:
        """Let nobody pass for `pause_s` seconds: the server asked for it."""
        self._not_before_s = max(self._not_before_s, asyncio.get_running_loop().time() + pause_s)

    def _wait_s(self, tokens: int, now_s: float) -> float:
        return max(self._not_before_s - now_s, self._requests.wait_s(1, now_s), self._tokens.wait_s(tokens, now_s))
