"""Pages of other sites at a server on loopback: a browser lets them open a web socket without asking anybody, so the server has to look."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rlver.tasks.runtime.guard import OwnPagesOnly, TextFrames

Headers = tuple[tuple[str, str], ...]
OURS = (("Host", "127.0.0.1:7700"),)
LET_IN: dict[str, Headers] = {
    "a program, which has no origin": OURS,
    "our own page": (*OURS, ("Origin", "http://127.0.0.1:7700")),
    "our own page under our other name": (("Host", "localhost:7700"), ("Origin", "http://localhost:7700")),
    "names in capitals": (("Host", "LOCALHOST:7700"), ("Origin", "http://LocalHost:7700")),
    "the port that nobody names": (("Host", "localhost"), ("Origin", "http://localhost")),
}
REFUSED: dict[str, Headers] = {
    "another page": (*OURS, ("Origin", "http://evil.example")),
    "a page in a sandbox, or a file": (*OURS, ("Origin", "null")),
    "a page of this machine on another port": (*OURS, ("Origin", "http://127.0.0.1:8000")),
    "a page under our other name": (*OURS, ("Origin", "http://localhost:7700")),
    "our address under another scheme": (*OURS, ("Origin", "https://127.0.0.1:7700")),
    "our page and another": (*OURS, ("Origin", "http://127.0.0.1:7700"), ("Origin", "http://evil.example")),
    "another name for this machine": (("Host", "evil.example:7700"),),
    "another name, and its own page": (("Host", "evil.example:7700"), ("Origin", "http://evil.example:7700")),
    "a name that begins with ours": (("Host", "127.0.0.1.evil.example:7700"),),
    "no name": (),
    "two names": (*OURS, *OURS),
    "our name and another": (*OURS, ("Host", "evil.example:7700")),
}
REACHED = {"type": "reached"}


def answered(kind: str, headers: Headers) -> list[dict[str, Any]]:
    """What is sent for a request or a web socket; REACHED where the server behind the guard is asked."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("a refusal waits for nothing")

    async def server(_: Any, __: Any, ___: Any) -> None:
        sent.append(REACHED)

    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    scope = {"type": kind, "method": "GET", "path": "/ws", "query_string": b"", "headers": raw}
    asyncio.run(OwnPagesOnly(server, frozenset({"127.0.0.1", "localhost"}))(scope, receive, send))
    return sent


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("headers", LET_IN.values(), ids=LET_IN.keys())
def test_our_pages_and_programs_are_let_in(kind: str, headers: Headers) -> None:
    assert answered(kind, headers) == [REACHED]


@pytest.mark.parametrize("headers", REFUSED.values(), ids=REFUSED.keys())
def test_others_never_reach_the_server(headers: Headers) -> None:
    begun, body = answered("http", headers)
    assert begun["status"] == 403 and body["body"].startswith(b"Requests of other pages")
    assert answered("websocket", headers) == [{"type": "websocket.close", "code": 1008}], "closed before the handshake: status 403"


def test_the_start_of_the_server_is_nobody_s_request() -> None:
    assert answered("lifespan", ()) == [REACHED]


@pytest.mark.parametrize(
    ("came", "read"),
    [
        ({"type": "websocket.receive", "bytes": b'{"type": "state"}'}, {"type": "websocket.receive", "text": '{"type": "state"}'}),
        ({"type": "websocket.receive", "bytes": b"\xff{", "text": None}, {"type": "websocket.receive", "text": "\ufffd{"}),
        ({"type": "websocket.receive", "bytes": None, "text": "words"}, {"type": "websocket.receive", "bytes": None, "text": "words"}),
        ({"type": "websocket.disconnect", "code": 1001}, {"type": "websocket.disconnect", "code": 1001}),
    ],
)
def test_a_server_that_reads_text_is_given_text(came: dict[str, Any], read: dict[str, Any]) -> None:
    seen: list[Any] = []

    async def server(_: Any, receive: Any, __: Any) -> None:
        seen.append(await receive())

    async def receive() -> Any:
        return came

    asyncio.run(TextFrames(server)({"type": "websocket"}, receive, receive))  # type: ignore[arg-type]
    assert seen == [read]
