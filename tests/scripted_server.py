"""A real HTTP/1.1 server on a loopback port that does, request by request, what its script says: also what no server should."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.loopback import Connections, Request
from rlver.components.endpoint.chat import ChatRequest, Message
from rlver.components.endpoint.parameters import EndpointParameters, Price

MODEL = "model-a"
KEY = "sk-secret-0123456789abcdef"
PRICES = {MODEL: Price(million_in=1.0, million_out=2.0), "model-b": Price(million_in=10.0, million_out=20.0)}


@dataclass(frozen=True)
class Reply:
    """What the server does with one request. `sent_bytes`: so many of the body, then the connection is cut."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    wait_s: float = 0.0
    sent_bytes: int | None = None
    reason: str = "Because"


@dataclass(frozen=True)
class Asked:
    """One request as the server got it."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def content(self) -> str:
        return str(self.body["messages"][-1]["content"])


Script = Callable[[int, Asked], Reply]


@dataclass
class Server:
    script: Script
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    asked_at_s: list[float] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)  # by the last message's content: whole answers with status 200
    connections: Connections = field(default_factory=Connections)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.connections.serve(reader, writer, self._answer)

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        asked = Asked(request.path, dict(request.headers), json.loads(request.content) if request.content else {})
        self.asked.append(asked)
        self.asked_at_s.append(asyncio.get_running_loop().time())
        reply = self.script(len(self.asked) - 1, asked)
        if reply.wait_s:
            await asyncio.sleep(reply.wait_s)
        lines = [
            f"HTTP/1.1 {reply.status} {reply.reason}",
            f"Content-Length: {len(reply.body)}",
            *(f"{name}: {value}" for name, value in reply.headers),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode() + reply.body[: reply.sent_bytes])
        await writer.drain()
        if reply.sent_bytes is None and reply.status == 200 and b'"choices"' in reply.body and is_json(reply.body) and asked.body:
            self.answered[asked.content] += 1
        return reply.sent_bytes is None


@asynccontextmanager
async def serving(script: Script) -> AsyncGenerator[Server, None]:
    server = Server(script)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=512)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listener.close()


@contextmanager
def serving_beside(script: Script) -> Iterator[Server]:
    """The same in a thread of its own, for commands that have an event loop of their own."""
    ready: list[tuple[Server, asyncio.AbstractEventLoop, asyncio.Event]] = []
    is_ready = threading.Event()

    async def serve() -> None:
        async with serving(script) as server:
            stop = asyncio.Event()
            ready.append((server, asyncio.get_running_loop(), stop))
            is_ready.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert is_ready.wait(30)
    server, loop, stop = ready[0]
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def good(
    asked: Asked, *, text: str | None = None, tokens_in: int = 100, tokens_out: int = 10, finish: str = "stop", wait_s: float = 0.0
) -> Reply:
    """The text that belongs to the request, so that a mixed-up answer shows."""
    message = {"role": "assistant", "content": answer_to(asked.content) if text is None else text}
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}
    return Reply(body=json.dumps({"choices": [{"message": message, "finish_reason": finish}], "usage": usage}).encode(), wait_s=wait_s)


def error(status: int, message: str, code: str | None = None, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    return Reply(status, json.dumps({"error": {"message": message, "code": code}}).encode(), headers)


def answer_to(content: str) -> str:
    return f"the answer to {content}"


def is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def parameters(url: str, **changes: Any) -> EndpointParameters:
    """Small waits, no caps."""
    values: dict[str, Any] = {
        "base_url": url,
        "key_variable": "TEST_API_KEY",
        "concurrency": 16,
        "requests_per_minute": None,
        "tokens_per_minute": None,
        "connect_timeout_s": 2.0,
        "answer_timeout_s": 5.0,
        "attempts": 4,
        "backoff_first_s": 0.005,
        "backoff_most_s": 0.02,
        "retry_after_most_s": 5.0,
        "breaker_failures": 100,
        "breaker_cool_down_s": 30.0,
        "jitter_seed": 1,
        "currency": "EUR",
        "prices": PRICES,
        "budget": None,
    }
    return EndpointParameters(**{**values, **changes})


def ask(content: str, **changes: Any) -> ChatRequest:
    values: dict[str, Any] = {"model": MODEL, "temperature": 0.5, "top_p": 1.0, "max_tokens": 100, "seed": 7}
    return ChatRequest(messages=(Message("system", "You are kind."), Message("user", content)), **{**values, **changes})


def key() -> str | None:
    return KEY
