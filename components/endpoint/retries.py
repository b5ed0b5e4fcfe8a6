"""The one place where a call is tried again: with exponential back-off, full jitter, and an end.

Every attempt passes the same gates: a free slot, the rate caps, the breaker, the budget.
"""

from __future__ import annotations

import asyncio
import logging
import random

from components.endpoint.breaker import Breaker
from components.endpoint.chat import ChatAnswer, ChatEndpoint, ChatRequest, EndpointRefused, EndpointUnavailable
from components.endpoint.faults import Hiccup
from components.endpoint.ledger import Ledger
from components.endpoint.limits import Pace
from components.endpoint.parameters import EndpointParameters
from components.endpoint.prices import tokens_in_at_most

logger = logging.getLogger(__name__)

_BYTES_PER_TOKEN = 3  # an estimate for the rate cap, on the careful side for English and Chinese; the answer corrects it


class RetryingEndpoint:
    """Asks until there is an answer, a refusal, or no attempt left."""

    def __init__(self, upstream: ChatEndpoint, parameters: EndpointParameters, ledger: Ledger) -> None:
        self._upstream = upstream
        self._parameters = parameters
        self._url = parameters.base_url.rstrip("/")
        self._ledger = ledger
        self._slots = asyncio.Semaphore(parameters.concurrency)
        self._pace = Pace(parameters.requests_per_minute, parameters.tokens_per_minute)
        self._breaker = Breaker(self._url, parameters.breaker_failures, parameters.breaker_cool_down_s)
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
                raise EndpointUnavailable(f"{self._url}: {hiccup.what}, {failures} times; {hiccup.advice}")
            if self._is_too_long(hiccup.pause_s):
                raise EndpointUnavailable(f"{self._url}: {hiccup.what}, to be asked again in {hiccup.pause_s:.0f} s; {hiccup.advice}")
            wait_s = self._back_off_s(failures)
            logger.info("%s: %s; trying again in %.1f s", self._url, hiccup.what, wait_s)
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
