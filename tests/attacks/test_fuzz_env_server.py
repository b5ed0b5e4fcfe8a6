"""Requests and web sockets to `rlver env serve`, mutated: what stands in front of OpenEnv's application, which is replaced by a small one.

OpenEnv has an environment of its own; what its application does with a frame is in tests/components/adapters/test_openenv_bad_input.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fuzzing import fuzz
from mutation import as_json, mutants
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from wire import ServedInProcess, as_request, refuse_refused, statuses_of

from rlver.tasks.commands.env import LOOPBACK, MOST_BODY
from rlver.tasks.runtime.guard import BoundedBodies, OwnPagesOnly, TextFrames
from rlver.tasks.runtime.web import MOST_FRAME, config_of
from rlver.tasks.runtime.web_sockets import MOST_PIECES, at_most

HOST = "127.0.0.1:7700"
HEADERS = {"Host": HOST, "Accept": "*/*", "Origin": f"http://{HOST}"}
UPGRADE = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits",
}  # fmt: skip
TEXT, BYTES, MORE, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
CODES = ("0", "1", "2", "3", "7", "8", "9", "10", "15", "16", "255")
MASK = b"mask"
RAWS = (
    *('"http://evil.example"', '"null"', '"localhost:7700"', '"localhost"', '"evil.example"', '"127.0.0.1.evil.example"', '"[::1]:7700"', '"é"'),
    *("/ws?session_id=", "//ws", "http://evil.example/ws", "*", "/ws?" + "&" * 9_000, "TRACE", "PRI", "/%ED%A0%80", "/reset"),
    *("chunked", "gzip, chunked", "100-continue", "websocket", "Upgrade", "keep-alive, Upgrade", "h2c", "close", "8", "13", "AAAA", "x" * 8_000),
    *("permessage-deflate; server_max_window_bits=99", "chat, superchat", "Transfer-Encoding: chunked\r\nContent-Length: 3", "a: b\r\n" * 200),
    *CODES, "[9, true, \"" + "p" * 126 + "\"]", "[1, false, \"\"]", "[8, true, \"\\u0003\"]",
)  # fmt: skip


def asked(target: str, method: str = "GET", **headers: str) -> dict[str, Any]:
    return {"method": method, "target": target, "headers": {**HEADERS, **headers}, "body": None}


def said(target: str, body: Any, **headers: str) -> dict[str, Any]:
    return {**asked(target, "POST", **{"Content-Type": "application/json", **headers}), "body": body}


def talked(*frames: list[Any]) -> dict[str, Any]:
    """A web socket and what comes over it: opcode, whether the message ends with it, and text."""
    return {**asked("/ws", **UPGRADE), "frames": list(frames)}


RESET = json.dumps({"type": "reset", "data": {"seed": 1}})
STEP = json.dumps({"type": "step", "data": {"message": "I am here. 😀"}})
DOCUMENTS: list[Any] = [
    asked("/health"),
    asked("/health", "HEAD"),
    said("/reset", {"seed": 1}),
    said("/step", {"action": {"message": "心里"}}, **{"Transfer-Encoding": "chunked"}),
    [asked("/health"), said("/reset", {"seed": 1})],
]
TALKS: list[Any] = [
    talked(),
    talked([TEXT, True, RESET], [TEXT, True, STEP], [CLOSE, True, ""]),
    talked([BYTES, True, RESET], [PING, True, "you?"], [PONG, True, "you?"], [TEXT, True, STEP]),
    talked([TEXT, False, RESET[:9]], [PING, True, ""], [MORE, False, RESET[9:12]], [MORE, True, RESET[12:]], [TEXT, True, STEP]),
]


def frame(value: Any) -> bytes:
    """A frame as a client sends it, masked, whatever has become of its parts."""
    opcode, ends, text = value if isinstance(value, list) and len(value) == 3 else (TEXT, True, value)
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else as_json(text)
    kind = opcode if isinstance(opcode, int) else int(opcode) if str(opcode) in CODES else 3
    first = (kind & 0x7F) | (bool(ends) << 7)
    size = len(content)
    length = (
        bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big") if size < 2**16 else b"\xff" + size.to_bytes(8, "big")
    )
    repeated = MASK * (size // len(MASK) + 1)
    return bytes([first]) + length + MASK + bytes(a ^ b for a, b in zip(content, repeated, strict=False))


def as_connection(value: Any) -> bytes:
    """A request and what follows it on the same connection."""
    frames = value.get("frames") if isinstance(value, dict) else None
    return as_request(value) + b"".join(map(frame, frames if isinstance(frames, list) else ()))


class Users:
    """Stands for OpenEnv's application: reads JSON out of texts, one session a web socket."""

    def __init__(self) -> None:
        self.open, self.heard = 0, 0

    async def over_http(self, request: Request) -> Response:
        content = await request.body()
        assert len(content) <= MOST_BODY
        return JSONResponse({"bytes": len(content)})

    async def over_a_web_socket(self, socket: WebSocket) -> None:
        assert socket.headers.get("origin", f"http://{socket.headers['host']}").lower() == f"http://{socket.headers['host'].lower()}"
        await socket.accept()
        self.open += 1
        try:
            while (message := await socket.receive())["type"] == "websocket.receive":
                assert message.get("bytes") is None and len(message["text"]) <= MOST_FRAME
                message["text"].encode()
                self.heard += 1
                await socket.send_text('{"type": "observation"}')
        except WebSocketDisconnect:
            pass  # it left before it was answered
        finally:
            self.open -= 1


class ServedUsers(ServedInProcess):
    """The layers of `rlver env serve`, in their order, in front of `users`."""

    def __init__(self, most_sockets: int = 1) -> None:
        self.users = Users()
        routes = [Route("/health", self.users.over_http), WebSocketRoute("/ws", self.users.over_a_web_socket)]
        routes += [Route(path, self.users.over_http, methods=["POST"]) for path in ("/reset", "/step")]
        layers = OwnPagesOnly(BoundedBodies(TextFrames(Starlette(routes=routes)), MOST_BODY), frozenset(LOOPBACK))
        super().__init__(config_of(layers, "127.0.0.1", 7700, at_most(most_sockets)))

    def read(self, content: bytes) -> None:
        """Raises AssertionError for what must not happen, and ValueError for what is refused."""
        head = content.find(b"\r\n\r\n")
        written = self.ask(content, at=None if head < 0 else head + 4)  # a client waits for the handshake
        assert self.users.open == 0, "a session of a client that has left"
        assert any(name.encode() in content.lower() for name in LOOPBACK) or all(status >= 400 for status in statuses_of(written))
        refuse_refused(written)


@pytest.fixture
def served() -> Iterator[ServedUsers]:
    opened = ServedUsers()
    yield opened
    opened.end()


def test_every_request_and_web_socket_is_answered_as_it_is(served: ServedUsers) -> None:
    for document in DOCUMENTS:
        served.read(as_connection(document))
    for talk, heard in zip(TALKS, (0, 1, 2, 2), strict=True):  # the second leaves before it is answered
        served.users.heard = 0
        served.read(as_connection(talk))
        assert served.users.heard == heard


def opened(served: ServedUsers, *frames: list[Any]) -> bytes:
    """What a web socket answers to frames."""
    content = as_connection(talked(*frames))
    return served.ask(content, at=content.index(b"\r\n\r\n") + 4).partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([[TEXT, True, "\ud800"]], 1007),
        ([[TEXT, False, "\ud800"], [MORE, True, "x"], [TEXT, True, "\ud800"]], 1007),
        ([[TEXT, False, ""], *[[MORE, False, ""]] * (MOST_PIECES + 9)], 1009),
        ([[TEXT, True, "x" * (MOST_FRAME + 1)]], 1009),
        ([[TEXT, False, "x" * MOST_FRAME], [MORE, True, "x"]], 1009),
        ([[MORE, True, "x"]], 1002),
    ],
)
def test_what_is_no_message_ends_the_connection_and_nothing_else(served: ServedUsers, frames: list[Any], code: int) -> None:
    assert opened(served, *frames)[2:4] == code.to_bytes(2, "big") and served.users.heard == 0


def test_a_web_socket_too_many_is_refused() -> None:
    full = ServedUsers(most_sockets=0)
    with pytest.raises(AssertionError, match="503"):
        full.read(as_connection(TALKS[0]))
    full.end()


@pytest.mark.parametrize(
    "headers", [{f"X-{number}": "y" for number in range(150)}, {"X": "y" * 9_000}, {"Sec-WebSocket-Version": "\ud800"}]
)
def test_a_handshake_that_only_http_can_read_ends_the_connection(served: ServedUsers, headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="refused"):
        served.read(as_connection({**talked(), "headers": {**HEADERS, **UPGRADE, **headers}}))


@pytest.mark.parametrize("times", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_nothing_breaks_what_stands_before_the_users(served: ServedUsers, times: int) -> None:
    documents = [*DOCUMENTS, *DOCUMENTS, *TALKS, *TALKS, *map(as_connection, [*DOCUMENTS, *TALKS])]
    fuzz(mutants(documents, as_connection, RAWS), served.read, times)
    for document in [*DOCUMENTS, *TALKS]:
        served.read(as_connection(document))
