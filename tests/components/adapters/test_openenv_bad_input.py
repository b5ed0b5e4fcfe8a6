"""What no client should send to the OpenEnv server: an error each, and whoever else is there talks on. Needs the package openenv."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

pytest.importorskip("openenv", reason="openenv is not installed: it has an environment of its own (docs/adapters.md)")

import websockets
from openenv.core.generic_client import GenericEnvClient
from served_users import CREATE, SERVE, SESSIONS, posted, served

from rlver.tasks.commands.env import OTHER_SOCKETS
from rlver.tasks.runtime.guard import PATIENCE_S


@pytest.fixture(scope="module")
def url(repository_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(repository_root, tmp_path_factory.mktemp("served"), *SERVE) as address:
        yield address


def test_bad_input_is_an_error_and_the_session_goes_on(url: str) -> None:
    async def talk() -> None:
        async with GenericEnvClient(base_url=url) as client:
            with pytest.raises(RuntimeError, match="reset before the first step"):
                await client.step({"message": "too early"})
            with pytest.raises(RuntimeError, match="no persona 'nobody'"):
                await client.reset(persona_id="nobody")
            await client.reset(seed=1)
            with pytest.raises(RuntimeError, match="at most 65,536"):
                await client.step({"message": "x" * 1_000_000})
            with pytest.raises(RuntimeError):
                await client.step({"wrong": "field"})
            result = await client.step({"message": "I am here."})
            while not result.done:
                result = await client.step({"message": "I am here."})
            with pytest.raises(RuntimeError, match="over"):
                await client.step({"message": "too late"})
            assert not (await client.reset(seed=2)).done

    asyncio.run(talk())


RESET, STEP = json.dumps({"type": "reset", "data": {"seed": 1}}), json.dumps({"type": "step", "data": {"message": "I am here."}})


async def told(raw: websockets.ClientConnection, frame: str | bytes | None = None) -> tuple[str, str]:
    """What the server answers to a frame: its kind, and the words of an error."""
    if frame is not None:
        await raw.send(frame)
    answer = json.loads(await raw.recv())
    return answer["type"], answer["data"].get("message", "")


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (b"\xff\xfe{", "Invalid JSON"),
        ("{", "Invalid JSON"),
        ('{"type": "step", "data": {"message": "half \\ud83d"}}', "half of a surrogate pair"),
        ('{"type": "step", "data": {"message": 5}}', "Invalid message"),
        ('{"type": "leave"}', "Unknown message type"),
        ('{"type": "reset", "data": {"seed": 1e999}}', "whole number from 0, got 'inf'"),
        ('{"type": "reset", "data": {"seed": true}}', "whole number from 0, got 'True'"),
        ('{"type": "reset", "data": {"persona_id": ["a"]}}', "persona_id must be text"),
        ('{"type": "reset", "data": {"difficulty": ["a"]}}', "difficulty must be text"),
        (json.dumps({"type": "reset", "data": {"episode_id": "e" * 1_000_000}}), "episode_id must be text of at most 200"),
        ('{"type": "reset", "data": {"hidden_need": "listen"}}', "reset knows seed"),
    ],
)
def test_a_frame_that_cannot_be_read_is_an_error_and_the_dialogue_goes_on(url: str, frame: str | bytes, words: str) -> None:
    async def talk() -> None:
        async with websockets.connect(url.replace("http", "ws") + "/ws") as raw:
            assert await told(raw, RESET) == ("observation", "")
            kind, said = await told(raw, frame)
            assert kind == "error" and words in said and len(said) < 500
            assert await told(raw, STEP) == ("observation", "")

    asyncio.run(talk())


@pytest.mark.parametrize(("frame", "code"), [(b"\xff\xfe{", 1007), (b"x" * 1_100_000, 1009), (b"x" * 20_000_000, 1009)])
def test_text_that_is_none_or_too_long_closes_one_session_alone(url: str, frame: bytes, code: int) -> None:
    async def talk() -> None:
        async with GenericEnvClient(base_url=url) as other:
            await other.reset(seed=1)
            async with websockets.connect(url.replace("http", "ws") + "/ws") as raw:
                with suppress(websockets.ConnectionClosed):  # it may be shut before all is sent
                    await raw.send(frame, text=True)
                with pytest.raises(websockets.ConnectionClosed) as closed:
                    await raw.recv()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == code
            assert not (await other.step({"message": "I am here."})).done

    asyncio.run(talk())


def test_a_second_client_of_a_session_is_refused_and_the_first_goes_on(url: str) -> None:
    session = posted(url, "/mcp", CREATE)[1]["result"]["session_id"]
    where = url.replace("http", "ws") + "/ws?session_id="

    async def talk() -> None:
        async with websockets.connect(where + session) as first:
            assert await told(first, RESET) == ("observation", "")
            async with websockets.connect(where + session) as second:
                assert await told(second) == ("error", f"Session {session} already has an attached WebSocket")
            assert await told(first, STEP) == ("observation", "")
        async with websockets.connect(where + "nobody") as third:
            assert await told(third) == ("error", "Unknown session_id: nobody")

    asyncio.run(talk())
    close = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": {"session_id": session}}
    assert posted(url, "/mcp", json.dumps(close).encode())[1]["result"]["closed"]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/step", b'{"action": {"message": "hi"}}', 400, "reset before the first step"),
        ("/reset", b'{"persona_id": "nobody"}', 400, "there is no persona 'nobody'"),
        ("/reset", b"\xff\xfe{", 400, "error parsing the body"),
    ],
)
def test_bad_input_over_http_is_refused_in_words(url: str, path: str, body: bytes, status: int, words: str) -> None:
    got, detail = posted(url, path, body)
    assert got == status and words in detail


def test_a_body_that_is_too_long_is_refused_in_words(url: str) -> None:
    assert posted(url, "/reset", b'{"episode_id": "' + b"e" * 1_100_000 + b'"}') == (413, "The body has more than 1048576 bytes.")


def test_a_web_socket_is_not_hung_up_on_while_its_trainer_thinks(url: str) -> None:
    """A connection over HTTP would be, after ten seconds."""

    async def talk() -> None:
        async with websockets.connect(url.replace("http", "ws") + "/ws") as raw:
            assert await told(raw, RESET) == ("observation", "")
            await asyncio.sleep(PATIENCE_S + 2)
            assert await told(raw, STEP) == ("observation", "")

    asyncio.run(talk())


def test_web_sockets_beyond_the_limit_are_refused_and_make_room_when_they_are_closed(url: str) -> None:
    """Of clients who read nothing: they are told that all sessions are taken, and answer nothing to that."""
    host, port = url.removeprefix("http://").split(":")
    asked = f"GET /ws HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    with ExitStack() as stack:
        for _ in range(SESSIONS + OTHER_SOCKETS):
            one = stack.enter_context(socket.create_connection((host, int(port)), 20))
            one.sendall(f"{asked}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode())
            assert one.recv(12) == b"HTTP/1.1 101"
        one = stack.enter_context(socket.create_connection((host, int(port)), 20))
        one.sendall(f"{asked}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode())
        assert one.recv(12) == b"HTTP/1.1 503"
        assert posted(url, "/reset", b'{"seed": 1}')[0] == 200

    async def talk() -> None:
        await asyncio.sleep(0.5)
        async with websockets.connect(url.replace("http", "ws") + "/ws") as raw:
            assert await told(raw, RESET) == ("observation", "")

    asyncio.run(talk())
