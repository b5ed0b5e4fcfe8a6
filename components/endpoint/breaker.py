"""Stops asking a server that answers nothing: a circuit breaker.

Closed, it counts failures in a row. A failure counts only if none was counted since its call began, so that one moment's trouble, which
fails all calls in flight, counts once. Open, it refuses at once and wakes everybody who waits; after the cool-down one call may try.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from components.endpoint.chat import EndpointRefused, EndpointUnavailable
from components.endpoint.faults import Hiccup


class Breaker:
    def __init__(self, url: str, failures: int, cool_down_s: float) -> None:
        self._url = url
        self._limit = failures
        self._cool_down_s = cool_down_s
        self._in_a_row = 0
        self._open_until_s: float | None = None  # of the loop's clock; None while closed
        self._is_probing = False
        self._last = ""
        self._waiting: set[asyncio.Timeout] = set()

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
            f"{self._url}: not asked any more for {self._cool_down_s:g} s after {self._in_a_row} failures in a row, the last: {self._last}"
        )

    def _close(self) -> None:
        self._in_a_row = 0
        self._open_until_s = None

    def _count(self, hiccup: Hiccup) -> None:
        self._in_a_row += 1
        self._last = f"{hiccup.what}; {hiccup.advice}"
        if self._in_a_row < self._limit:
            return
        now_s = asyncio.get_running_loop().time()
        self._open_until_s = now_s + self._cool_down_s
        waiting, self._waiting = self._waiting, set()
        for deadline in waiting:
            deadline.reschedule(now_s)
