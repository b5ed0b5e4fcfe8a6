"""Who may talk to a small server of our own, and how much they may send.

A web page of somebody else that is open in a browser of this machine can reach such a server. It cannot name our host without being found
out (DNS rebinding), and it cannot send JSON without asking first, which is never granted.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATIENCE_S = 10.0  # for the head and for the body of a request, and for reading what was answered
CLOSES = {"connection": "close"}  # of an answer to a request whose body was not read, and is not waited for


class NotLetIn(Exception):
    """A request that is refused before the server sees it: the HTTP status, and why."""

    def __init__(self, status: int, message: str, why: Literal["foreign", "key", "slow", "long"]) -> None:
        super().__init__(message)
        self.status, self.message, self.why = status, message, why


class _Gone(Exception):
    """The client left before the request was whole."""


KeyCheck = Callable[[Scope, Headers], Sequence[tuple[str, str]]]  # raises NotLetIn; returns headers that the answer gets besides


@dataclass(frozen=True)
class RequestGuard:
    """Lets through what names us rightly, comes from no foreign page, has the key where one is set, and is no longer than it may be.

    `hosts`: names with port under which the server is open (hosts_of); `headers`: of every answer; `refused`: how a refusal is said.
    """

    app: ASGIApp
    hosts: frozenset[str]
    most_bytes: int  # of a body
    headers: Mapping[str, str]
    check_key: KeyCheck
    refused: Callable[[NotLetIn], Response]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        more_headers: Sequence[tuple[str, str]] = ()

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                sent.update(self.headers)
                for name, value in more_headers:
                    sent.append(name, value)
            await send(message)

        try:
            _check_origin(scope["method"], headers, self.hosts)
            more_headers = self.check_key(scope, headers)
            body = await _whole_body(receive, self.most_bytes)
        except NotLetIn as refusal:
            await self.refused(refusal)(scope, receive, with_headers)
        except _Gone:
            return
        else:
            await self.app(scope, _again(body, receive), with_headers)


async def _whole_body(receive: Receive, most_bytes: int) -> bytes:
    """The body of a request. Raises NotLetIn and _Gone."""
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise _Gone
                body += message.get("body", b"")
                if len(body) > most_bytes:
                    raise NotLetIn(413, f"The body has more than {most_bytes} bytes.", "long")
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise NotLetIn(408, "The request did not come to its end.", "slow") from None


def _check_origin(method: str, headers: Headers, hosts: frozenset[str]) -> None:
    """Raise NotLetIn for a request that comes neither from our own page nor from a program."""
    if headers.get("host", "").lower() not in hosts:
        raise NotLetIn(421, "This server is not known under that name.", "foreign")
    asks = method in ("GET", "HEAD")
    is_followed_link = asks and headers.get("sec-fetch-mode") == "navigate"
    is_foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not is_followed_link
    if is_foreign or not all(origin.lower() == f"http://{headers['host'].lower()}" for origin in headers.getlist("origin")):
        raise NotLetIn(403, "Requests of other pages are not answered.", "foreign")
    if not asks and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise NotLetIn(415, "JSON is expected.", "foreign")


@dataclass(frozen=True)
class OwnPagesOnly:
    """Refuses requests and web sockets that name us otherwise, or come from a page that is not ours. Browsers ask no leave for a web socket.

    For servers on loopback that do not know their port. `names`: of the host, without port.
    """

    app: ASGIApp
    names: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or self._is_let_in(Headers(scope=scope)):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # before the handshake: the client reads status 403
        else:
            await PlainTextResponse("Requests of other pages and host names are not answered.", 403)(scope, receive, send)

    def _is_let_in(self, headers: Headers) -> bool:
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or hosts[0].partition(":")[0] not in self.names:
            return False
        return all(origin.lower() == f"http://{hosts[0]}" for origin in headers.getlist("origin"))


@dataclass(frozen=True)
class BoundedBodies:
    """Reads requests to their end before the server hears of them, none longer than `most_bytes`. A refusal is JSON with a `detail`, as
    FastAPI says it. Web sockets are bounded where they are read (web_sockets.py).
    """

    app: ASGIApp
    most_bytes: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            body = await _whole_body(receive, self.most_bytes)
        except NotLetIn as refusal:
            await JSONResponse({"detail": refusal.message}, refusal.status, CLOSES)(scope, receive, send)
        except _Gone:
            return
        else:
            await self.app(scope, _again(body, receive), send)


@dataclass(frozen=True)
class TextFrames:
    """Hands on what comes over a web socket as text, to a server that reads no bytes. What is no UTF-8 becomes �."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def as_text() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive" and message.get("bytes") is not None:
                return {"type": message["type"], "text": message["bytes"].decode(errors="replace")}
            return message

        await self.app(scope, as_text if scope["type"] == "websocket" else receive, send)


def hosts_of(host: str, port: int) -> frozenset[str]:
    """How a client may name a server that listens at `host`."""
    own = f"[{host}]" if ":" in host else host
    names = (own.lower(), "127.0.0.1", "localhost", "[::1]")
    return frozenset(name if bare else f"{name}:{port}" for name in names for bare in {False, port == 80})  # browsers leave 80 out


def same(given: str, key: str) -> bool:
    """Whether a key is the right one; how long that takes tells nothing about it."""
    return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), key.encode())


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives the body once, and then whatever comes."""
    waiting: Iterable[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def given() -> Message:
        for message in waiting:
            return message
        return await receive()

    return given
