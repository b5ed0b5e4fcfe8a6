"""Who may talk to the page's server, and how much they may send.

What every small server of ours refuses is in `tasks/runtime/web.py`. A page that is open to a network asks for a key besides, which stands
in the address that the terminal shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlver.tasks.runtime.web import PATIENCE_S, Gone, again, hosts_of, refusal_of, same, whole_body

__all__ = ["COOKIE", "MOST_BODY", "PATIENCE_S", "PageGuard", "hosts_of"]

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

        refusal = refusal_of(scope["method"], headers, self.hosts)
        if refusal is None and self.key is not None:
            given = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])[0]
            if scope["path"] == "/" and same(given, self.key):
                port = headers["host"].rpartition(":")[2]  # cookies are sent to all ports: another `rlver blind` there has its own
                cookie.append(f"{COOKIE}_{port}={self.key}; HttpOnly; SameSite=Strict; Path=/")
            elif not any(same(value, self.key) for value in _cookies(headers)):
                refusal = 403, "This address needs its key: open the whole address that the terminal shows."
        if refusal is None:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    body = await whole_body(receive, MOST_BODY)
            except TimeoutError:
                refusal = 408, "The request did not come to its end."
            except Gone:
                return
            else:
                if body is not None:
                    await self.app(scope, again(body, receive), with_headers)
                    return
                refusal = 413, f"More than {MOST_BODY} bytes."
        status, text = refusal
        await PlainTextResponse(text, status, {"connection": "close"})(scope, receive, with_headers)  # the rest is not waited for


def _cookies(headers: Headers) -> Iterable[str]:
    """The values of every cookie that may be ours, whatever stands around it: what other servers of this host set is sent here too."""
    for cookie in ";".join(headers.getlist("cookie")).split(";"):
        name, _, value = cookie.strip().partition("=")
        if name.startswith(COOKIE):
            yield value
