"""An endpoint that fails in every way it can: every call ends well or says in one line why not, and none is made more often than needed."""

from __future__ import annotations

import asyncio
import email.utils
import logging
import random
import time
from pathlib import Path

import pytest
from one_chat import chat, first, hold
from scripted_server import KEY, MODEL, Asked, Reply, Script, Server, answer_to, ask, error, good, key, parameters, serving

from rlver.components.endpoint.answers import RecordedEndpoint
from rlver.components.endpoint.chat import (
    ChatAnswer,
    EndpointError,
    EndpointRefused,
    EndpointUnavailable,
    Hiccup,
    Key,
    Place,
    RequestTooLong,
    fault_of,
    retry_after_s,
)
from rlver.components.endpoint.opening import check_endpoint, list_models, open_endpoint


def faulty(share: float, seed: int) -> Script:
    """So large a share of the answers is of one of ten bad kinds."""
    rng = random.Random(seed)

    def script(number: int, asked: Asked) -> Reply:
        right = good(asked, wait_s=0.002)
        if rng.random() >= share:
            return right
        return rng.choice(
            [
                error(429, "slow down", headers=(("Retry-After", "0"),)),
                error(500, "internal error"),
                error(503, "overloaded"),
                Reply(502, b"<html>bad gateway</html>"),
                Reply(body=right.body, wait_s=1.0),
                Reply(body=right.body, sent_bytes=len(right.body) // 2),
                Reply(body=right.body, sent_bytes=0),
                Reply(body=right.body[: len(right.body) // 2]),
                Reply(body=rng.choice([b"", b'{"choices": []}', b'{"choices": [{"message": {"content": 5}}]}', b"[" * 100_000])),
            ]
        )

    return script


@pytest.mark.long
def test_with_a_third_of_bad_answers_every_request_gets_its_own_right_answer_and_calls_stay_below_twice(tmp_path: Path) -> None:
    """Expected calls: 200 / 0.7 = 286."""

    async def work(endpoint: RecordedEndpoint, server: Server) -> list[ChatAnswer]:
        return await asyncio.gather(*(endpoint.chat(ask(f"question {number}")) for number in range(200)))

    answers, server = hold(tmp_path, faulty(0.3, seed=3), work, attempts=10, answer_timeout_s=0.5, breaker_failures=20)
    assert [answer.text for answer in answers] == [answer_to(f"question {number}") for number in range(200)]
    assert 240 < len(server.asked) <= 400
    assert all(answer.finish_reason == "stop" and not answer.cached for answer in answers)


@pytest.mark.parametrize(
    "reply",
    [
        error(429, "slow down"),
        error(500, "internal error"),
        Reply(502, b"<html>"),
        Reply(body=b'{"choices": [{"message": {"content": "half an ans'),
        Reply(body=b'{"choices": [{"message": {"content": "cut"}}]}', sent_bytes=20),
        Reply(body=b""),
        Reply(body=b"null"),
        Reply(body=b'{"choices": []}'),
        Reply(body=b'{"error": {"message": "200, but no"}}'),
        Reply(body=b'{"choices": [{"message": {"content": ["a"]}}]}'),
        Reply(body=b'{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": "7"}}'),
        Reply(body=b'{"choices": ' + b"[" * 200_000),
        Reply(body=b'{"choices": [{"message": {"content": "a"}}], "usage": {"prompt_tokens": 1' + b"0" * 5000 + b"}}"),
        Reply(body=b"{}", wait_s=1.0),
        Reply(body=b'{"choices": [{"message": {"content": ""}, "finish_reason": "insufficient_system_resource"}]}'),
        Reply(body=b'{"choices": [{"message": {"content": "half"}, "finish_reason": "stop", "error": {"code": 502}}]}'),
        Reply(body=b'{"choices": [{"message": {"content": [{"type": "image_url", "image_url": {}}]}}]}'),
    ],
    ids=lambda reply: f"{reply.status} {reply.body[:40]!r}",
)
def test_one_bad_answer_costs_one_more_call(tmp_path: Path, reply: Reply) -> None:
    answer, server = chat(tmp_path, first(reply), answer_timeout_s=0.3)
    assert answer.text == answer_to("a") and len(server.asked) == 2


def test_an_error_that_comes_with_status_200_is_told_in_the_servers_words(tmp_path: Path) -> None:
    with pytest.raises(EndpointUnavailable, match=r"an error in place of an answer: the provider is gone, 4 times"):
        chat(tmp_path, lambda number, asked: Reply(body=b'{"error": {"message": "the provider is gone"}}'))


def test_retries_end(tmp_path: Path) -> None:
    asked: list[int] = []

    def script(number: int, _: Asked) -> Reply:
        asked.append(number)
        return error(503, "overloaded")

    with pytest.raises(
        EndpointUnavailable, match=r"^http://127\.0\.0\.1:\d+/v1: HTTP 503: overloaded, 4 times; the server has trouble: try again"
    ):
        chat(tmp_path, script)
    assert len(asked) == 4


def test_a_pause_that_the_server_asks_for_is_kept_by_everybody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first call is told to wait 1 s; four others come once it has heard that."""
    caplog.set_level(logging.INFO, "rlver.components.endpoint")

    async def work(endpoint: RecordedEndpoint, server: Server) -> None:
        early = asyncio.create_task(endpoint.chat(ask("early")))
        async with asyncio.timeout(60):
            while "HTTP 429" not in caplog.text:
                await asyncio.sleep(0.005)
        await asyncio.gather(early, *(endpoint.chat(ask(f"late {number}")) for number in range(4)))

    _, server = hold(tmp_path, first(error(429, "slow down", headers=(("Retry-After", "1"),))), work)
    told_at_s, *others_at_s = server.asked_at_s
    assert len(others_at_s) == 5 and all(at_s - told_at_s >= 0.99 for at_s in others_at_s)


def test_a_pause_longer_than_we_are_willing_to_wait_is_no_retry(tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(EndpointUnavailable, match="HTTP 429: quota, to be asked again in 3600 s; lower requests_per_minute"):
        chat(tmp_path, first(error(429, "quota", headers=(("Retry-After", "3600"),))))
    assert time.monotonic() - begun < 2


def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    now_s = 1_700_000_000.0
    assert retry_after_s({"retry-after": "17"}, now_s) == 17
    assert retry_after_s({"retry-after": "0.5"}, now_s) == 0.5
    assert retry_after_s({"retry-after": email.utils.formatdate(now_s + 42, usegmt=True)}, now_s) == 42
    assert retry_after_s({"retry-after": email.utils.formatdate(now_s - 42, usegmt=True)}, now_s) == 0
    assert retry_after_s({}, now_s) is None and retry_after_s({"retry-after": "soon"}, now_s) is None


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (error(401, f"Incorrect API key provided: {KEY}"), "the key was not accepted (HTTP 401): check TEST_API_KEY"),
        (error(402, "Insufficient Balance"), "no credit left (HTTP 402): Insufficient Balance; top up the account: answered calls are kept"),
        (error(429, "Quota exceeded", "insufficient_quota"), "no credit left (HTTP 429): Quota exceeded; top up the account: answered calls are kept"),
        (error(403, "not yours"), "not allowed (HTTP 403): not yours; may the key in TEST_API_KEY use 'model-a'?"),
        (error(404, "The model `model-a` does not exist."), "unknown model 'model-a': The model `model-a` does not exist.; GET {url}/models lists the models"),
        (error(400, "Model Not Exist"), "unknown model 'model-a': Model Not Exist; GET {url}/models lists the models"),
        (Reply(404, b"<html>nothing</html>"), "no chat endpoint here (HTTP 404); check the address, which usually ends in /v1"),
        (Reply(301, b"", (("Location", "https://example.org/"),)), "no chat endpoint here (HTTP 301); check the address, which usually ends in /v1"),
        (
            error(400, "This model's maximum context length is 4096 tokens.\nHowever, you requested 5000"),
            "too long for 'model-a': This model's maximum context length is 4096 tokens. However, you requested 5000; "
            "shorten the conversation, lower max_tokens or serve a longer context",
        ),
        (error(400, "Content Exists Risk"), "the content was refused: Content Exists Risk; change the prompt or ask another model"),
        (
            error(403, "Your chosen model requires moderation and your input was flagged"),
            "the content was refused: Your chosen model requires moderation and your input was flagged; change the prompt or ask another model",
        ),
        (
            Reply(400, b'[{"error": {"code": 400, "message": "Unknown name: top_k", "status": "INVALID_ARGUMENT"}}]'),
            "the request was refused (HTTP 400): Unknown name: top_k; check the parameters of 'model-a'",
        ),
        (error(422, "top_k?"), "the request was refused (HTTP 422): top_k?; check the parameters of 'model-a'"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)  # fmt: skip
def test_what_would_be_refused_again_is_asked_once_and_said_in_one_line(tmp_path: Path, reply: Reply, message: str) -> None:
    async def work(endpoint: RecordedEndpoint, server: Server) -> tuple[str, str]:
        with pytest.raises(EndpointRefused) as caught:
            await endpoint.chat(ask("a"))
        return str(caught.value), f"{server.url}: " + message.format(url=server.url)

    (said, expected), server = hold(tmp_path, lambda number, asked: reply, work)
    assert said == expected and "\n" not in said and len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "request (4105 tokens) exceeds the available context size (4096 tokens), try increasing it"),
        (500, "Context size has been exceeded."),
        (400, "This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
        (
            422,
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2040 `inputs` tokens and 20 `max_new_tokens`",
        ),
        (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048575)."),
        (400, "'max_tokens' or 'max_completion_tokens' is too large: 500. This model's maximum context length is 4096 tokens"),
    ],
)
def test_a_full_context_is_known_by_what_servers_say_of_it(tmp_path: Path, status: int, said: str) -> None:
    asked: list[int] = []

    def script(number: int, _: Asked) -> Reply:
        asked.append(number)
        return error(status, said)

    with pytest.raises(RequestTooLong, match="shorten the conversation"):
        chat(tmp_path, script)
    assert len(asked) == 1


def test_a_server_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    async def run() -> str:
        async with serving(first()) as server:
            url = server.url
        async with open_endpoint(parameters(url, attempts=2), key, tmp_path / "answers.db", False) as endpoint:
            with pytest.raises(EndpointUnavailable) as caught:
                await endpoint.chat(ask("a"))
        return str(caught.value).removeprefix(url)

    said = asyncio.run(run())
    assert said.startswith(": no connection (") and said.endswith("), 2 times; is the server running, and is the address right?")


def test_terminal_tricks_and_long_pages_in_an_error_are_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(EndpointRefused) as caught:
        chat(tmp_path, first(error(400, "bad\x1b[2J\r\n" + "x" * 5000)))
    assert str(caught.value).isprintable() and len(str(caught.value)) < 350


@pytest.mark.parametrize("depth", [800, 850, 900, 950])
@pytest.mark.parametrize("status", [400, 500])
def test_an_error_with_nested_lists_in_it_is_an_error(tmp_path: Path, depth: int, status: int) -> None:
    nested = "[" * depth + "]" * depth
    body = f'{{"error": {{"message": {nested}, "code": {nested}}}}}'.encode()
    with pytest.raises(EndpointRefused if status == 400 else EndpointUnavailable, match=f"HTTP {status}") as caught:
        chat(tmp_path, lambda number, asked: Reply(status, body))
    assert len(str(caught.value)) < 600


@pytest.mark.long
@pytest.mark.parametrize(("late_s", "answer_timeout_s"), [(0.005, 30.0), (2.0, 1.0)], ids=["in time", "some too late"])
def test_256_chats_share_24_slots_and_connections(tmp_path: Path, late_s: float, answer_timeout_s: float) -> None:
    """A connection that was given up is closed and replaced; the server does not look up from its work to see the end of the old one."""

    async def work(endpoint: RecordedEndpoint, server: Server) -> list[ChatAnswer]:
        return await asyncio.gather(*(endpoint.chat(ask(str(number))) for number in range(256)))

    def script(number: int, asked: Asked) -> Reply:
        return good(asked, wait_s=late_s if number % 16 == 0 else 0.005)

    answers, server = hold(tmp_path, script, work, concurrency=24, answer_timeout_s=answer_timeout_s, attempts=8)
    assert [answer.text for answer in answers] == [answer_to(str(number)) for number in range(256)]
    if late_s < answer_timeout_s:
        assert server.connections.most == 24 and len(server.asked) == 256
    assert len(server.asked) < 256 * 1.25


@pytest.mark.parametrize("status", [408, 502, 504, 522, 524, 598, 599])
def test_what_a_proxy_gave_up_waiting_for_may_have_cost(status: int) -> None:
    fault = fault_of(status, None, None, Place("http://here/v1", MODEL, Key(key, "TEST_API_KEY")))
    assert isinstance(fault, Hiccup) and fault.may_have_cost


def models(*names: str) -> Reply:
    return Reply(body=str([*({"id": name} for name in names)]).replace("'", '"').join(('{"data": ', "}")).encode())


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (models("model-a", "model-b"), None),
        (Reply(404, b""), None),
        (models("model-a:latest", "other"), None),
        (models("model-*", "other"), None),
        (models("model-a:free", "other"), "unknown model 'model-a'; the server has model-a:free"),
        (models("model-a1", "other"), "unknown model 'model-a'; the server has model-a1"),
        (error(401, "no"), "the key was not accepted (HTTP 401): check TEST_API_KEY"),
        (error(503, "starting"), "HTTP 503: starting; the server has trouble: try again later, answered calls are kept"),
    ],
)
def test_what_is_wrong_can_be_known_before_anything_is_spent(reply: Reply, message: str | None) -> None:
    async def run() -> str | None:
        async with serving(lambda number, asked: reply) as server:
            try:
                await check_endpoint(parameters(server.url), key, [MODEL])
            except EndpointError as error:
                return str(error).removeprefix(f"{server.url}: ")
            assert [asked.path for asked in server.asked] == ["/v1/models"]
        return None

    assert asyncio.run(run()) == message


@pytest.mark.parametrize(("model", "known"), [("model-a:free", True), ("model-b:free", False), ("team/model-a", False)])
def test_a_router_knows_a_model_with_a_suffix(model: str, known: bool) -> None:
    async def run() -> None:
        async with serving(lambda number, asked: models("model-a", "team")) as server:
            await check_endpoint(parameters(server.url), key, [model])

    if known:
        asyncio.run(run())
    else:
        with pytest.raises(EndpointRefused, match=f"unknown model '{model}'"):
            asyncio.run(run())


@pytest.mark.parametrize("name", ["model-a", "m" * 300])
def test_a_model_is_known_by_its_whole_name_also_where_the_key_is_a_part_of_it(name: str) -> None:
    async def run() -> None:
        async with serving(lambda number, asked: models("other", name)) as server:
            await check_endpoint(parameters(server.url), lambda: "m", [name])
            assert await list_models(parameters(server.url), lambda: "m") == ["other", name]
            with pytest.raises(EndpointRefused, match=r"the server has other, \[key\]"):
                await check_endpoint(parameters(server.url), lambda: "m", ["x"])

    asyncio.run(run())


@pytest.mark.parametrize("proxy", ["socks5://me:hunter2@127.0.0.1:1080", "gopher://me:hunter2@127.0.0.1:70", "http://127.0.0.1:port"])
def test_a_proxy_that_cannot_be_used_is_said_in_one_line(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(EndpointRefused) as caught:
        asyncio.run(list_models(parameters("http://192.0.2.1:8100/v1"), key))
    said = str(caught.value)
    assert said.startswith("http://192.0.2.1:8100/v1: no connection can be made through the proxy of the environment (")
    assert said.endswith("; correct or unset HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY") and "\n" not in said
    assert "hunter2" not in said
