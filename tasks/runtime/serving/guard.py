"""Our part in front of vLLM's web server: nobody without the key is let in, at any address.

vLLM's own check of its key leaves out every address but /v1, /v2, /inference and /cohere, so also those that load files and run methods of
the worker; and it reads a body as JSON whatever its type, so that any web page could post to them without asking first. Runs in vLLM's
environment and imports nothing of this project (`--middleware guard.OnlyWithKey`).
"""

from __future__ import annotations

import hmac
import importlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
OPEN = ("GET", "/health")


class OnlyWithKey:
    """Answers 401 to what does not carry VLLM_API_KEY as its bearer; only the health check needs none."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app
        self._bearer = f"Bearer {importlib.import_module('vllm.envs').VLLM_API_KEY or _missing()}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope.get("method"), scope["path"]) == OPEN or self._knows_the_key(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"this server wants a key"})
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _knows_the_key(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._bearer)


def _missing() -> str:
    raise ValueError("VLLM_API_KEY is not set: a server that loads files for whoever asks must have a key")
