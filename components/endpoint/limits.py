"""How fast an endpoint may be asked: requests and tokens a minute, and pauses that the server asks for.

A bucket holds at most `capacity` and fills at `per_second`, so that any minute sees at most capacity + 60 x per_second. The buckets here
are sized so that this is the cap itself: requests go evenly spaced, tokens keep a tenth of the cap for bursts.
"""

from __future__ import annotations

import asyncio
import math

_BURST = 0.1


class Bucket:
    """A level that calls draw down and time fills up. Times are seconds of any one clock."""

    def __init__(self, capacity: float, per_second: float) -> None:
        self._capacity = capacity
        self._per_second = per_second
        self._level = capacity
        self._at_s = 0.0

    @classmethod
    def unlimited(cls) -> Bucket:
        return cls(math.inf, 0.0)

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
        self._requests = Bucket.unlimited() if requests_per_minute is None else Bucket(1, requests_per_minute / 60)
        self._tokens = (
            Bucket.unlimited() if tokens_per_minute is None else Bucket(_BURST * tokens_per_minute, (1 - _BURST) * tokens_per_minute / 60)
        )
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
