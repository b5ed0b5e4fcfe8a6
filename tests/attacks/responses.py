"""HTTP responses as servers of models give them, to be mutated, and a server on loopback that gives the one it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation import as_json
from scripted_server import key, parameters

from rlver.components.endpoint.chat import ChatEndpoint
from rlver.components.endpoint.opening import open_endpoint
from rlver.components.endpoint.parameters import EndpointParameters

HEADS = {"Content-Type": "application/json", "Retry-After": "3", "X-Request-Id": "7"}
GOOD = {
    "id": "1",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "I am here.", "reasoning_content": "Be kind."}}
    ],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
}
ERROR = {"error": {"message": "'max_tokens' is not supported, use max_completion_tokens", "code": "unsupported_parameter", "type": "x"}}
RESPONSES = [[200, HEADS, GOOD], [400, HEADS, ERROR], [429, HEADS, ERROR], [200, {"Transfer-Encoding": "chunked"}, GOOD]]
HTTP = [
    "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\n\r\n", "HTTP/2 200\r\n\r\n",
    "Content-Length: -1\r\n", "Content-Length: 99999999999999999999\r\n", "Content-Encoding: gzip\r\n", "Content-Encoding: br, gzip, deflate\r\n", "\r\n\r\n",
    "Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n", "0\r\n\r\n", "Set-Cookie: a=b\r\n", "Retry-After: 1e999\r\n", "Retry-After: " + "9" * 5_000 + "\r\n",
    "Retry-After: Wed, 99 Foo 99999 99:99:99 GMT\r\n", "X: " + "x" * 60_000 + "\r\n", "X: y\r\n" * 500, "Content-Type: text/event-stream\r\n\r\ndata: {}\n\n",
]  # fmt: skip


def response(value: Any) -> bytes:
    """A whole HTTP response out of [status, headers, body]."""
    status, headers, body = value if isinstance(value, list) and len(value) == 3 else (200, {}, value)
    content = as_json(body)
    heads = {str(name): str(part) for name, part in headers.items()} if isinstance(headers, dict) else {}
    if heads.get("Transfer-Encoding") == "chunked":
        content = f"{len(content):x}\r\n".encode() + content + b"\r\n0\r\n\r\n"
    else:
        heads["Content-Length"] = str(len(content))
    lines = [f"HTTP/1.1 {status} Because", *(f"{name}: {part}" for name, part in heads.items())]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + content


@dataclass
class Told:
    """Answers every request with `sent`, and closes."""

    url: str = ""
    sent: bytes = b""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.findall(rb"content-length: (\d+)", head.lower())[0]))
            writer.write(self.sent)
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def told_server() -> AsyncIterator[Told]:
    told = Told()
    async with await asyncio.start_server(told.answer, "127.0.0.1", 0) as server:
        told.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield told


def asked_once(told: Told) -> EndpointParameters:
    """Of a client that does not ask again, whatever the answer."""
    return parameters(told.url, attempts=1, breaker_failures=10**9, answer_timeout_s=0.5, retry_after_most_s=0.001)


@contextlib.contextmanager
def told_endpoint(answers: Path) -> Iterator[tuple[asyncio.Runner, Told, ChatEndpoint]]:
    """The server with a client, and the loop that both run in; `answers`: where the client keeps what was answered."""

    async def opened(stack: contextlib.AsyncExitStack) -> tuple[Told, ChatEndpoint]:
        told = await stack.enter_async_context(told_server())
        return told, await stack.enter_async_context(open_endpoint(asked_once(told), key, answers, replay=False))

    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        yield runner, *runner.run(opened(stack))
        runner.run(stack.aclose())
