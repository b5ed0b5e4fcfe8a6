"""No faster than allowed, in the order of asking; and not at all while the server is down."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_server import Asked, Reply, Script, Server, answer_to, ask, error, good, key, parameters, serving

from rlver.components.endpoint.answers import RecordedEndpoint
from rlver.components.endpoint.chat import EndpointUnavailable
from rlver.components.endpoint.opening import open_endpoint
from rlver.components.endpoint.retries import Bucket, Pace

SPAN_S = 60.0


def hold(path: Path, script: Script, work: Callable[[RecordedEndpoint, Server], Awaitable[Any]], **changes: Any) -> Any:
    async def run() -> Any:
        async with serving(script) as server, open_endpoint(parameters(server.url, **changes), key, path / "answers.db", False) as endpoint:
            return await work(endpoint, server)

    return asyncio.run(run())


def passages(bucket: Bucket, amounts: list[float], start_s: float = 1000.0) -> list[tuple[float, float]]:
    """When each amount gets through, if all are asked for at once: (time, amount)."""
    now_s, passed = start_s, []
    for amount in amounts:
        while (wait_s := bucket.wait_s(amount, now_s)) > 0:
            now_s += wait_s
        bucket.take(amount)
        passed.append((now_s, amount))
    return passed


def most_in_a_minute(passed: list[tuple[float, float]]) -> float:
    return max(sum(amount for at_s, amount in passed if begin_s <= at_s < begin_s + SPAN_S - 1e-6) for begin_s, _ in passed)


def test_requests_go_evenly_and_no_minute_sees_more_than_allowed() -> None:
    passed = passages(Bucket(1, 30 / 60), [1.0] * 100)
    assert most_in_a_minute(passed) == 30
    assert passed[-1][0] - passed[0][0] == pytest.approx(99 * 2)


def test_no_minute_sees_more_tokens_than_allowed_and_most_of_them_are_used() -> None:
    """60,000 tokens a minute: 6,000 at once, then 900 a second."""
    rng = random.Random(5)
    passed = passages(Bucket(6_000, 900), [float(rng.randint(100, 3_000)) for _ in range(400)])
    assert 0.85 * 60_000 < most_in_a_minute(passed) <= 60_000


def test_a_request_larger_than_the_bucket_passes_when_it_is_full_and_is_paid_off() -> None:
    passed = passages(Bucket(10, 1), [25, 1], start_s=0.0)
    assert passed == [(0.0, 25), (pytest.approx(16.0), 1)], "15 owed and 1 asked for"


def test_what_a_request_did_not_use_is_given_back() -> None:
    bucket = Bucket(10, 1)
    bucket.take(10)
    assert bucket.wait_s(5, 0.0) == 5
    bucket.take(-7)
    assert bucket.wait_s(5, 0.0) == 0
    bucket.take(-100)
    assert bucket.wait_s(10, 0.0) == 0 and bucket.wait_s(11, 0.0) == 0, "never more than full"


def test_an_unlimited_pace_waits_for_nothing() -> None:
    async def run() -> None:
        pace = Pace(None, None)
        for _ in range(1000):
            await pace.wait(10**9)
            pace.settle(10**9, 5)

    asyncio.run(asyncio.wait_for(run(), timeout=10))


def test_whoever_asked_first_goes_first() -> None:
    async def run() -> list[int]:
        pace, order = Pace(60 * 200, 60 * 200_000), []

        async def one(number: int) -> None:
            await pace.wait(20_000 if number % 3 == 0 else 1)
            order.append(number)

        await asyncio.gather(*(one(number) for number in range(12)))
        return order

    assert asyncio.run(run()) == list(range(12))


def test_the_server_sees_requests_no_faster_than_the_cap(tmp_path: Path) -> None:
    """2,400 a minute are one in 25 ms."""

    async def work(endpoint: RecordedEndpoint, server: Server) -> list[float]:
        await asyncio.gather(*(endpoint.chat(ask(str(number))) for number in range(20)))
        return server.asked_at_s

    times_s = hold(tmp_path, lambda number, asked: good(asked), work, requests_per_minute=2400)
    assert times_s[-1] - times_s[0] >= 19 * 0.025 - 0.02


def test_the_tokens_that_answers_report_set_the_pace(tmp_path: Path) -> None:
    """60 million a minute: 6 million at once and 900,000 a second. Before the tenth answer of 750,000 tokens 6,750,000 are used, which
    takes (6,750,000 - 6,000,000) / 900,000 = 0.83 s, although only about 150 tokens were expected of each."""

    async def work(endpoint: RecordedEndpoint, server: Server) -> float:
        for number in range(10):
            await endpoint.chat(ask(str(number)))
        return server.asked_at_s[-1] - server.asked_at_s[0]

    def script(number: int, asked: Asked) -> Reply:
        return good(asked, tokens_in=749_000, tokens_out=1_000)

    assert 0.8 <= hold(tmp_path, script, work, tokens_per_minute=60_000_000) < 4


class Switch:
    """A server that is down until it is up."""

    def __init__(self, wait_s: float = 0.0) -> None:
        self.is_up = False
        self.wait_s = wait_s

    def __call__(self, number: int, asked: Asked) -> Reply:
        return good(asked) if self.is_up else Reply(503, b"", wait_s=self.wait_s)


def test_the_breaker_opens_after_failures_in_a_row_lets_one_through_and_closes(tmp_path: Path) -> None:
    switch = Switch()

    async def work(endpoint: RecordedEndpoint, server: Server) -> None:
        for number in range(5):
            with pytest.raises(EndpointUnavailable, match="HTTP 503"):
                await endpoint.chat(ask(str(number)))
        assert len(server.asked) == 3, "after the third failure nothing is asked"
        with pytest.raises(
            EndpointUnavailable, match=r"not asked any more for 0\.6 s after 3 failures in a row, the last: HTTP 503; the server"
        ):
            await endpoint.chat(ask("a"))

        await asyncio.sleep(0.65)
        probes = await asyncio.gather(*(endpoint.chat(ask(f"b{n}")) for n in range(10)), return_exceptions=True)
        assert len(server.asked) == 4 and all(isinstance(one, EndpointUnavailable) for one in probes), "one call tried, and failed"

        switch.is_up = True
        with pytest.raises(EndpointUnavailable):
            await endpoint.chat(ask("c"))
        await asyncio.sleep(0.65)
        assert (await endpoint.chat(ask("c"))).text == answer_to("c")
        answers = await asyncio.gather(*(endpoint.chat(ask(f"d{n}")) for n in range(10)))
        assert [answer.text for answer in answers] == [answer_to(f"d{n}") for n in range(10)]

    hold(tmp_path, switch, work, attempts=1, breaker_failures=3, breaker_cool_down_s=0.6)


def test_everybody_who_waits_hears_at_once_that_the_server_is_down(tmp_path: Path) -> None:
    """One slot, 30 callers, and back-offs of up to a minute: all know within a second."""

    async def work(endpoint: RecordedEndpoint, server: Server) -> int:
        async with asyncio.timeout(5):
            said = await asyncio.gather(*(endpoint.chat(ask(str(number))) for number in range(30)), return_exceptions=True)
        assert all(isinstance(one, EndpointUnavailable) and "HTTP 503" in str(one) and str(one).isprintable() for one in said)
        return len(server.asked)

    asked = hold(
        tmp_path,
        Switch(wait_s=0.02),
        work,
        concurrency=1,
        attempts=3,
        breaker_failures=4,
        backoff_first_s=60.0,
        backoff_most_s=60.0,
        requests_per_minute=6000,
    )
    assert asked == 4


def test_one_moments_trouble_fails_many_calls_and_counts_once(tmp_path: Path) -> None:
    """All 16 calls in flight fail together; the breaker, which opens at 3, stays closed and all are answered."""

    async def work(endpoint: RecordedEndpoint, server: Server) -> None:
        answers = await asyncio.gather(*(endpoint.chat(ask(str(number))) for number in range(16)))
        assert [answer.text for answer in answers] == [answer_to(str(number)) for number in range(16)]
        assert len(server.asked) == 32

    def script(number: int, asked: Asked) -> Reply:
        return Reply(503, b"", wait_s=0.2) if number < 16 else good(asked)

    hold(tmp_path, script, work, breaker_failures=3)


def test_a_refusal_shows_that_the_server_lives(tmp_path: Path) -> None:
    def script(number: int, asked: Asked) -> Reply:
        return error(400, "no") if number % 2 else error(500, "no")

    async def work(endpoint: RecordedEndpoint, server: Server) -> int:
        await asyncio.gather(*(endpoint.chat(ask(str(number))) for number in range(10)), return_exceptions=True)
        return len(server.asked)

    assert hold(tmp_path, script, work, attempts=1, breaker_failures=2, concurrency=1) == 10


def test_a_probe_that_is_given_up_leaves_the_next_caller_to_try(tmp_path: Path) -> None:
    switch = Switch()

    async def work(endpoint: RecordedEndpoint, server: Server) -> None:
        with pytest.raises(EndpointUnavailable):
            await endpoint.chat(ask("a"))
        await asyncio.sleep(0.1)
        switch.wait_s = 30.0
        probe = asyncio.create_task(endpoint.chat(ask("b")))
        await asyncio.sleep(0.1)
        with pytest.raises(EndpointUnavailable):
            await endpoint.chat(ask("c"))
        await endpoint.close()
        with pytest.raises(asyncio.CancelledError):
            await probe
        switch.is_up = True
        assert (await endpoint.chat(ask("c"))).text == answer_to("c")

    hold(tmp_path, switch, work, attempts=1, breaker_failures=1, breaker_cool_down_s=0.05, answer_timeout_s=60.0)
