"""What calls cost: counted when made, known or bounded when ended, the same after a restart, and stopped before the budget is passed.

Prices of model-a are 1 per million tokens in and 2 out, and a good answer has 100 in and 10 out: 120e-6.
"""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from scripted_server import PRICES, Asked, Reply, Script, Server, ask, error, good, key, parameters, serving

from rlver.components.endpoint.chat import BudgetExceeded, EndpointError, EndpointRefused, EndpointUnavailable
from rlver.components.endpoint.ledger import percentile
from rlver.components.endpoint.opening import EndpointRun, open_endpoint
from rlver.components.endpoint.parameters import money_at_most, tokens_in_at_most

ANSWER = 120e-6


def spend(
    path: Path, script: Script, *questions: str, model: str = "model-a", **changes: object
) -> tuple[dict[str, float], str, Server, list[object]]:
    """One question after the other; summary, progress line, server and outcomes."""

    async def run() -> tuple[dict[str, float], str, Server, list[object]]:
        outcomes: list[object] = []
        async with serving(script) as server, open_endpoint(parameters(server.url, **changes), key, path, False) as endpoint:
            for question in questions:
                try:
                    outcomes.append((await endpoint.chat(ask(question, model=model))).text)
                except EndpointError as caught:
                    outcomes.append(caught)
            return endpoint.ledger.summary(), endpoint.ledger.line(), server, outcomes

    return asyncio.run(run())


def always(number: int, asked: Asked) -> Reply:
    return good(asked)


def test_calls_retries_hits_tokens_and_money_are_counted(tmp_path: Path) -> None:
    def script(number: int, asked: Asked) -> Reply:
        return error(500, "no") if number == 1 else good(asked)

    numbers, line, _, _ = spend(tmp_path / "a.db", script, "a", "b", "a")
    assert numbers["calls"] == 3 and numbers["answered"] == 2 and numbers["retries"] == 1 and numbers["cache_hits"] == 1
    assert numbers["failed/http_500"] == 1 and numbers["unpriced_calls"] == 0
    assert numbers["tokens_in"] == 200 and numbers["tokens_out"] == 20
    assert numbers["money"] == numbers["money_at_most"] == pytest.approx(2 * ANSWER)
    assert 0 < numbers["model-a/seconds_p50"] <= numbers["model-a/seconds_p95"] <= numbers["model-a/seconds_max"] < 1
    assert all(isinstance(value, float) for value in numbers.values())
    assert line.startswith("3 calls, 1 retries, 1 cached, 200+20 tokens, cost 0.0002 EUR, p50 0.0 s, p95 ")


def test_the_most_that_a_call_can_cost_is_all_its_bytes_and_all_tokens_that_it_may_say() -> None:
    bytes_sent = len("You are kind.") + len("ä") + 1
    assert tokens_in_at_most(ask("ä")) == 128 + 2 * 16 + bytes_sent
    assert money_at_most(ask("ä"), PRICES) == pytest.approx(((128 + 2 * 16 + bytes_sent) * 1 + 100 * 2) / 1e6)


def test_a_call_that_just_fits_the_budget_is_made(tmp_path: Path) -> None:
    worst = money_at_most(ask("a"), PRICES)
    assert spend(tmp_path / "a.db", always, "a", budget=worst)[3] == ["the answer to a"]


def test_dialogues_in_a_thread_of_their_own_are_counted_from_any(tmp_path: Path) -> None:
    """As with train.max_staleness: the watch asks what a file has seen that another thread opened, and a replay begins in one and goes on in another."""
    run = EndpointRun("of this run")

    async def line(replay: bool) -> str:
        async with serving(always) as server, open_endpoint(parameters(server.url), key, tmp_path / "a.db", replay, run) as endpoint:
            await endpoint.chat(ask("a"))
            return await asyncio.to_thread(endpoint.ledger.line)

    with ThreadPoolExecutor(1) as thread:
        lines = [thread.submit(asyncio.run, line(replay)).result() for replay in (False, True)]
    assert [each.split(", 100+10")[0].split(", 0+0")[0] for each in lines] == [
        "1 calls, 0 retries, 0 cached",
        "0 calls, 0 retries, 1 cached",
    ]


def test_totals_survive_a_restart_and_what_is_new_can_be_told_apart(tmp_path: Path) -> None:
    spend(tmp_path / "a.db", always, "a", "b")
    numbers, line, _, _ = spend(tmp_path / "a.db", always, "a", "c", "d", "e")
    assert numbers["calls"] == 5 and numbers["cache_hits"] == 1 and numbers["money"] == pytest.approx(5 * ANSWER)
    assert line.startswith("3 calls, 0 retries, 1 cached, 300+30 tokens, cost 0.0006 EUR")


def test_a_replay_counts_for_itself_and_costs_nothing(tmp_path: Path) -> None:
    spend(tmp_path / "a.db", always, "a", "b")

    async def run() -> dict[str, float]:
        async with open_endpoint(parameters("http://127.0.0.1:9/v1", budget=0.0), key, tmp_path / "a.db", True) as endpoint:
            await endpoint.chat(ask("b"))
            return endpoint.ledger.summary()

    numbers = asyncio.run(run())
    assert numbers["calls"] == 0 and numbers["cache_hits"] == 1 and numbers["money"] == 0


def test_the_budget_stops_before_the_call_that_could_pass_it(tmp_path: Path) -> None:
    """Room for two answers and the worst case of a third call, but not for two and a worst case more: questions 1 to 3 go, 4 does not."""
    worst = money_at_most(ask("1"), PRICES)
    assert worst is not None and worst > ANSWER
    numbers, line, server, outcomes = spend(tmp_path / "a.db", always, "1", "2", "3", "4", "1", budget=2.5 * ANSWER + worst)
    assert len(server.asked) == 3 and numbers["money_at_most"] == pytest.approx(3 * ANSWER)
    refused = outcomes.pop(3)
    assert isinstance(refused, BudgetExceeded) and "raise the budget and run again: answered calls are kept" in str(refused)
    assert outcomes == ["the answer to 1", "the answer to 2", "the answer to 3", "the answer to 1"], "a stored answer is free"
    assert f"cost 0.0004 of {2.5 * ANSWER + worst:.4f} EUR" in line

    numbers, _, server, outcomes = spend(tmp_path / "a.db", always, "4", budget=2.5 * ANSWER + worst)
    assert isinstance(outcomes[0], BudgetExceeded) and not server.asked, "a restart does not forget what was spent"


def test_calls_in_flight_reserve_their_worst_case(tmp_path: Path) -> None:
    """Of ten calls at once, each of which could cost `worst`, three fit into 3.5 times `worst`."""
    worst = money_at_most(ask("0"), PRICES)
    assert worst is not None

    async def run() -> tuple[int, list[object]]:
        script: Script = lambda number, asked: good(asked, wait_s=0.2)  # noqa: E731
        async with (
            serving(script) as server,
            open_endpoint(parameters(server.url, budget=3.5 * worst), key, tmp_path / "a.db", False) as endpoint,
        ):
            said = await asyncio.gather(*(endpoint.chat(ask(str(number))) for number in range(10)), return_exceptions=True)
            return len(server.asked), [one for one in said if isinstance(one, BudgetExceeded)]

    asked, refused = asyncio.run(run())
    assert asked == 3 and len(refused) == 7


def test_without_money_nobody_waits_for_his_turn(tmp_path: Path) -> None:
    """Six requests a minute: 20 callers would wait for minutes to be told."""

    async def run() -> list[object]:
        async with (
            serving(always) as server,
            asyncio.timeout(5),
            open_endpoint(parameters(server.url, budget=0.0, requests_per_minute=6), key, tmp_path / "a.db", False) as endpoint,
        ):
            return await asyncio.gather(*(endpoint.chat(ask(str(number))) for number in range(20)), return_exceptions=True)

    assert {type(one) for one in asyncio.run(run())} == {BudgetExceeded}


def test_what_may_have_been_charged_counts_against_the_budget_until_it_is_known(tmp_path: Path) -> None:
    """A broken answer may be on the bill, a refused connection or a 500 is not."""
    worst = money_at_most(ask("a"), PRICES)
    bad = [Reply(body=b'{"choi'), error(500, "no"), error(429, "no")]
    numbers, _, _, _ = spend(tmp_path / "a.db", lambda number, asked: bad[number] if number < 3 else good(asked), "a")
    assert numbers["money"] == pytest.approx(ANSWER) and numbers["money_at_most"] == pytest.approx(ANSWER + (worst or 0.0))
    assert numbers["failed/malformed"] == numbers["failed/http_500"] == numbers["failed/http_429"] == 1


def test_a_call_that_was_cut_off_by_the_end_stays_at_its_worst_case(tmp_path: Path) -> None:
    worst = money_at_most(ask("a"), PRICES)

    async def run() -> None:
        async with serving(lambda number, asked: good(asked, wait_s=5.0)) as server:
            async with open_endpoint(parameters(server.url), key, tmp_path / "a.db", False) as endpoint:
                task = asyncio.create_task(endpoint.chat(ask("a")))
                await asyncio.sleep(0.1)
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())
    numbers, _, _, _ = spend(tmp_path / "a.db", always)
    assert numbers["calls"] == 1 and numbers["answered"] == 0 and numbers["money"] == 0 and numbers["money_at_most"] == pytest.approx(worst)


def test_a_budget_without_a_price_is_refused_before_the_first_call(tmp_path: Path) -> None:
    _, _, server, outcomes = spend(tmp_path / "a.db", always, "a", model="model-c", budget=100.0)
    assert str(outcomes[0]) == "'model-c' has no price, so the budget cannot be kept: add it to the prices" and not server.asked
    numbers, line, _, _ = spend(tmp_path / "b.db", always, "a", model="/models/model c")
    assert numbers["unpriced_calls"] == 1 and numbers["money"] == 0 and "models-model-c/seconds_p50" in numbers and "cost" not in line


def test_a_server_that_does_not_count_tokens_is_taken_at_the_worst(tmp_path: Path) -> None:
    reply = Reply(body=b'{"choices": [{"message": {"content": "so"}, "finish_reason": "stop"}]}')
    numbers, _, _, _ = spend(tmp_path / "a.db", lambda number, asked: reply, "a")
    assert numbers["unpriced_calls"] == 1 and numbers["money"] == 0
    assert numbers["money_at_most"] == money_at_most(ask("a"), PRICES)
    half = Reply(body=b'{"choices": [{"message": {"content": "so"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 5}}')
    numbers, _, _, _ = spend(tmp_path / "b.db", lambda number, asked: half, "a")
    assert numbers["money"] == 0 and numbers["money_at_most"] == money_at_most(ask("a"), PRICES), "the prompt was not free"


def test_thoughts_that_a_server_counts_in_the_total_only_are_paid_for(tmp_path: Path) -> None:
    usage = '"usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 150}'
    reply = Reply(body=f'{{"choices": [{{"message": {{"content": "so"}}, "finish_reason": "stop"}}], {usage}}}'.encode())
    numbers, _, _, _ = spend(tmp_path / "a.db", lambda number, asked: reply, "a")
    assert (numbers["tokens_in"], numbers["tokens_out"]) == (100, 50)


@pytest.mark.parametrize("text", ["", "a", "hello " * 100, "你好" * 100, "🙂" * 50, "\ud83d"])
def test_a_prompt_has_no_more_tokens_than_bytes(text: str) -> None:
    assert tokens_in_at_most(ask(text)) >= len(text.encode("utf-8", "surrogatepass")) + len("You are kind.")
    assert tokens_in_at_most(ask(text, schema={"a": "b" * 50})) >= tokens_in_at_most(ask(text)) + 50


def test_percentiles_are_values_that_occurred() -> None:
    """Nearest rank: of 1..20 the 95th is the 19th value, the 50th the 10th."""
    values = [float(value) for value in range(1, 21)]
    assert [percentile(values, percent) for percent in (50, 95, 100)] == [10, 19, 20]
    assert [percentile([3.0], percent) for percent in (50, 95)] == [3, 3]
    assert all(percentile(values[:size], percent) in values for size, percent in itertools.product(range(1, 20), (1, 50, 95, 100)))


def test_refusals_are_counted_and_cost_nothing(tmp_path: Path) -> None:
    numbers, _, _, outcomes = spend(tmp_path / "a.db", lambda number, asked: error(401, "no"), "a")
    assert isinstance(outcomes[0], EndpointRefused) and numbers["failed/refused"] == 1 and numbers["money_at_most"] == 0
    assert not isinstance(outcomes[0], EndpointUnavailable)
