"""Who may talk to the page's server, and how much they may send.

A web page of somebody else that is open in the same browser can reach a server on this machine. It cannot name our host without being
found out (DNS rebinding), and it cannot send JSON without asking first, which is never granted. A server that is open to a network asks
for a key besides, which stands in the address that the terminal shows.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY = 32_768  # bytes
PATIENCE_S = 10.0  # for the body of a request; for its head, and for reading what was answered, see serving
COOKIE = "rlver_blind"
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class PageGuard:
    """Lets through what comes from our own page. `hosts`: names with port under which it is open; `key`: None on loopback."""

    app: ASGIApp
    hosts: frozenset[str]
    key: str | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        cookie: list[str] = []

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    sent[name] = value
                for value in cookie:
                    sent.append("set-cookie", value)
            await send(message)

        refusal = self._refusal(scope["method"], headers)
        if refusal is None and self.key is not None:
            given = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])[0]
            if scope["path"] == "/" and _same(given, self.key):
                port = headers["host"].rpartition(":")[2]  # cookies are sent to all ports: another `rlver blind` there has its own
                cookie.append(f"{COOKIE}_{port}={self.key}; HttpOnly; SameSite=Strict; Path=/")
            elif not any(_same(value, self.key) for value in _cookies(headers)):
                refusal = 403, "This address needs its key: open the whole address that the terminal shows."
        if refusal is None:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    body = await _body(receive)
            except TimeoutError:
                refusal = 408, "The request did not come to its end."
            except _Gone:
                return
            else:
                if body is not None:
                    await self.app(scope, _again(body, receive), with_headers)
                    return
                refusal = 413, f"More than {MOST_BODY} bytes."
        status, text = refusal
        await PlainTextResponse(text, status, {"connection": "close"})(scope, receive, with_headers)  # the rest is not waited for

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        if headers.get("host", "").lower() not in self.hosts:
            return 421, "This page is not known under that name."
        asks = method in ("GET", "HEAD")
        is_followed_link = asks and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not is_followed_link:
            return 403, "Requests of other pages are not answered."
        if not all(origin.lower() == f"http://{headers['host'].lower()}" for origin in headers.getlist("origin")):
            return 403, "Requests of other pages are not answered."
        if asks:
            return None
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return 415, "JSON is expected."
        return None


def hosts_of(host: str, port: int) -> frozenset[str]:
    """How a browser may name a server that listens at `host`."""
    own = f"[{host}]" if ":" in host else host
    names = (own.lower(), "127.0.0.1", "localhost", "[::1]")
    return frozenset(name if bare else f"{name}:{port}" for name in names for bare in {False, port == 80})  # browsers leave 80 out


def _same(given: str, key: str) -> bool:
    return secrets.compare_digest(given.encode(), key.encode())


def _cookies(headers: Headers) -> Iterable[str]:
    """The values of every cookie that may be ours, whatever stands around it: what other servers of this host set is sent here too."""
    for cookie in ";".join(headers.getlist("cookie")).split(";"):
        name, _, value = cookie.strip().partition("=")
        if name.startswith(COOKIE):
            yield value


class _Gone(Exception):
    """The client left before the request was whole."""


async def _body(receive: Receive) -> bytes | None:
    """All of it, or None when it is too long."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _Gone
        body += message.get("body", b"")
        if len(body) > MOST_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives the body once, and then whatever comes."""
    waiting: Iterable[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def given() -> Message:
        for message in waiting:
            return message
        return await receive()

    return given
