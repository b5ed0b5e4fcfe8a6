"""Who may talk to the page's server, and how much they may send.

A web page of somebody else that is open in the same browser can reach a server on this machine. It cannot name our host without being
found out (DNS rebinding), and it cannot send JSON without asking first, which is never granted. A server that is open to a network asks
for a key besides, which stands in the address that the terminal shows.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY = 32_768  # bytes
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
class Guard:
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
                cookie.append(f"{COOKIE}={self.key}; HttpOnly; SameSite=Strict; Path=/")
            elif not _same(_cookie(headers), self.key):
                refusal = 403, "This address needs its key: open the whole address that the terminal shows."
        if refusal is None:
            body = await _body(receive)
            if body is None:
                refusal = 413, f"More than {MOST_BODY} bytes."
            else:
                await self.app(scope, _again(body, receive), with_headers)
                return
        status, text = refusal
        await PlainTextResponse(text, status)(scope, receive, with_headers)

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        if headers.get("host", "").lower() not in self.hosts:
            return 421, "This page is not known under that name."
        is_followed_link = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not is_followed_link:
            return 403, "Requests of other pages are not answered."
        if method == "GET":
            return None
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] not in self.hosts:
            return 403, "Requests of other pages are not answered."
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return 415, "JSON is expected."
        return None


def hosts_of(host: str, port: int) -> frozenset[str]:
    """How a browser may name a server that listens at `host`."""
    own = f"[{host}]" if ":" in host else host
    return frozenset(f"{name}:{port}" for name in (own.lower(), "127.0.0.1", "localhost", "[::1]"))


def _same(given: str, key: str) -> bool:
    return secrets.compare_digest(given.encode(), key.encode())


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


async def _body(receive: Receive) -> bytes | None:
    """All of it, or None when it is too long."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(parts)
        parts.append(message.get("body", b""))
        if sum(map(len, parts)) > MOST_BODY:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives the body once, and then whatever comes."""
    waiting: Iterable[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def given() -> Message:
        for message in waiting:
            return message
        return await receive()

    return given
