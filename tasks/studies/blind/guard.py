"""The guard of the page: a page that is open to a network asks for a key, which stands in the address that the terminal shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Scope

from rlver.tasks.runtime.guard import CLOSES, NotLetIn, RequestGuard, same

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


def page_guard(app: ASGIApp, hosts: frozenset[str], key: str | None) -> RequestGuard:
    """Lets through what comes from our own page. `key`: None on loopback; it stays in a cookie once the address with it was opened."""

    def check_key(scope: Scope, headers: Headers) -> Sequence[tuple[str, str]]:
        if key is None:
            return ()
        given = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])[0]
        if scope["path"] == "/" and same(given, key):
            port = headers["host"].rpartition(":")[2]  # cookies are sent to all ports: another `rlver blind` there has its own
            return (("set-cookie", f"{COOKIE}_{port}={key}; HttpOnly; SameSite=Strict; Path=/"),)
        if not any(same(value, key) for value in _cookies(headers)):
            raise NotLetIn(403, "This address needs its key: open the whole address that the terminal shows.", "key")
        return ()

    return RequestGuard(app, hosts, MOST_BODY, _HEADERS, check_key, _not_let_in)


def _not_let_in(refusal: NotLetIn) -> Response:
    return PlainTextResponse(refusal.message, refusal.status, CLOSES)


def _cookies(headers: Headers) -> Iterable[str]:
    """The values of every cookie that may be ours, whatever stands around it: what other servers of this host set is sent here too."""
    for cookie in ";".join(headers.getlist("cookie")).split(";"):
        name, _, value = cookie.strip().partition("=")
        if name.startswith(COOKIE):
            yield value
