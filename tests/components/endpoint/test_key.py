"""The key goes to the server and nowhere else, also when the server says it back in every way it can."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import pprint
import traceback
from pathlib import Path
from urllib.parse import quote

import pytest
from scripted_server import Asked, Reply, answer_to, ask, error, good, key, parameters, serving

from rlver.components.endpoint.chat import HIDDEN, ChatAnswer, EndpointError, EndpointRefused, Key
from rlver.components.endpoint.opening import check_endpoint, open_endpoint

SECRET = "sk-Very+Secret/0123456789abcdef"


def secret() -> str | None:
    return SECRET


def echoes(status: int) -> list[Reply]:
    """The Authorization header, said back."""
    spoken = f"you sent Authorization: Bearer {SECRET}"
    headers = (("X-Echo", SECRET), ("Location", f"/v1/{SECRET}"))
    return [
        error(status, spoken),
        error(status, spoken.lower(), code=SECRET),
        error(status, "x" * 190 + spoken, headers=headers),
        error(status, quote(spoken, safe="")),
        Reply(status, json.dumps({"detail": [{"msg": spoken}]}).encode()),
        Reply(status, json.dumps({"detail": [{"msg": "x" * 140 + spoken + "y" * 300}]}).encode()),
        Reply(status, json.dumps({"error": spoken}).replace("/", "\\/").encode()),
        Reply(status, f"<html>{spoken}</html>".encode(), headers, reason=SECRET),
    ]


REPLIES = [reply for status in (200, 301, 400, 401, 403, 404, 422, 429, 500) for reply in echoes(status)]


def test_no_error_log_or_file_holds_a_key_that_the_server_says_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts: list[str] = []

    async def run() -> None:
        async with serving(lambda number, asked: REPLIES[number // 2]) as server:
            settings = parameters(server.url, attempts=2, breaker_failures=10**6)
            async with open_endpoint(settings, secret, tmp_path / "answers.db", False) as endpoint:
                while len(server.asked) < 2 * len(REPLIES):
                    try:
                        await endpoint.chat(ask(str(len(server.asked))))
                    except EndpointError as caught:
                        texts.append("".join(traceback.format_exception(caught)) + repr(caught) + str(caught.args))
                texts.extend(
                    repr(value) for value in (settings, endpoint, vars(endpoint), endpoint.ledger.summary(), endpoint.ledger.line())
                )
                texts.extend(path.read_bytes().decode("latin-1") for path in tmp_path.iterdir())

    with caplog.at_level(logging.DEBUG):
        asyncio.run(run())
    assert len(texts) > len(REPLIES) and len(caplog.records) > 20
    everything = "\n".join([*texts, caplog.text]).lower()
    assert "not accepted" in everything and HIDDEN in everything
    for form in (SECRET, quote(SECRET, safe=""), SECRET[:12], SECRET[-12:]):
        assert form.lower() not in everything


def test_a_key_in_an_answer_is_neither_used_nor_stored(tmp_path: Path) -> None:
    def script(number: int, asked: Asked) -> Reply:
        message = {"content": f"yours is {SECRET}", "reasoning_content": asked.headers["authorization"]}
        return Reply(body=json.dumps({"choices": [{"message": message, "finish_reason": SECRET}], SECRET: SECRET}).encode())

    async def run() -> ChatAnswer:
        async with serving(script) as server, open_endpoint(parameters(server.url), secret, tmp_path / "a.db", False) as endpoint:
            answer = await endpoint.chat(ask("a"))
            assert not [path for path in tmp_path.iterdir() if SECRET.encode() in path.read_bytes()]
            return answer

    answer = asyncio.run(run())
    assert (answer.text, answer.reasoning, answer.finish_reason) == (f"yours is {HIDDEN}", f"Bearer {HIDDEN}", HIDDEN)


def test_a_placeholder_for_a_local_server_does_not_damage_answers(tmp_path: Path) -> None:
    async def run() -> str:
        async with (
            serving(lambda number, asked: good(asked, text="an EMPTY room")) as server,
            open_endpoint(parameters(server.url), lambda: "EMPTY", tmp_path / "a.db", False) as endpoint,
        ):
            text = (await endpoint.chat(ask("a"))).text
            assert server.asked[0].headers["authorization"] == "Bearer EMPTY"
            return text

    assert asyncio.run(run()) == "an EMPTY room"


@pytest.mark.parametrize("value", [None, "", " \n"])
def test_without_a_key_none_is_sent_and_a_server_that_wants_one_names_the_variable(tmp_path: Path, value: str | None) -> None:
    async def run() -> None:
        def script(number: int, asked: Asked) -> Reply:
            return good(asked) if number == 0 else error(401, "no")

        async with serving(script) as server, open_endpoint(parameters(server.url), lambda: value, tmp_path / "a.db", False) as endpoint:
            assert (await endpoint.chat(ask("a"))).text == answer_to("a")
            assert "authorization" not in server.asked[0].headers
            with pytest.raises(EndpointRefused, match=r"a key is needed \(HTTP 401\): set TEST_API_KEY"):
                await endpoint.chat(ask("b"))

    asyncio.run(run())


@pytest.mark.parametrize("broken", [f"{SECRET}\nsecond line", f"{SECRET} x", f"{SECRET}é"])
def test_a_key_that_no_header_can_carry_is_not_shown(tmp_path: Path, broken: str) -> None:
    async def run() -> None:
        async with serving(lambda number, asked: good(asked)) as server:
            async with open_endpoint(parameters(server.url), lambda: broken, tmp_path / "a.db", False) as endpoint:
                with pytest.raises(EndpointRefused) as caught:
                    await endpoint.chat(ask("a"))
            assert not server.asked
        text = "".join(traceback.format_exception(caught.value))
        assert "the key in TEST_API_KEY has spaces, line breaks or letters outside ASCII" in text and SECRET not in text

    asyncio.run(run())


def test_white_space_around_a_key_is_not_part_of_it() -> None:
    assert Key(lambda: f" {SECRET}\r\n", "X").authorization() == f"Bearer {SECRET}"
    assert SECRET not in repr(Key(secret, "X")) + pprint.pformat(vars(Key(secret, "X")))


@pytest.mark.parametrize(
    "url",
    [
        f"https://user:{SECRET}@host/v1",
        f"https://host/v1?key={SECRET}",
        f"{SECRET}",
        f"ftp://{SECRET}@h",
        f"http://u:{SECRET}",
        "",
        "host:80/v1",
    ],
)
def test_an_address_that_holds_a_secret_or_is_none_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match="the address of an endpoint must") as caught:
        parameters(url)
    assert SECRET not in str(caught.value)


def test_the_check_before_a_run_shows_no_key_either() -> None:
    async def run(reply: Reply) -> str:
        async with serving(lambda number, asked: reply) as server:
            with pytest.raises(EndpointError) as caught:
                await check_endpoint(parameters(server.url), secret, ["model-x"])
            return "".join(traceback.format_exception(caught.value))

    listed = Reply(body=json.dumps({"data": [{"id": SECRET}]}).encode())
    said = [asyncio.run(run(reply)) for reply in [listed, *echoes(400), *echoes(401), *echoes(500)]]
    assert not [text for text in said if SECRET[:12].lower() in text.lower()] and "unknown model 'model-x'" in said[0]


def test_nothing_is_left_open(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    async def run() -> None:
        async with (
            serving(lambda number, asked: good(asked)) as server,
            open_endpoint(parameters(server.url), key, tmp_path / "a.db", False) as one,
        ):
            await one.chat(ask("a"))

    asyncio.run(run())
    gc.collect()
    assert not [warning for warning in recwarn if issubclass(warning.category, ResourceWarning)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"], "the write-ahead log is folded in"
