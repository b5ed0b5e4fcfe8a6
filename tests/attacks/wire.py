"""Requests as bytes, and a server of ours that is given them as a socket would give them, with a socket and without.

Without one everything between a socket and a page's own code is run still: uvicorn's HTTP, how long a connection may last, the guard.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from mutation import as_json
from uvicorn.server import ServerState

STATUS = re.compile(rb"^HTTP/1\.1 (\d{3}) ", re.MULTILINE)
_LOGS = ("uvicorn.error", "asyncio", "websockets.server")
TURNS = 400  # of the event loop, in which an answer must be made once all of a request is there


def as_request(value: Any) -> bytes:
    """The bytes of a request, or of several, whatever has become of its parts. A request is a mapping of method, target, headers and body."""
    if isinstance(value, list):
        return b"".join(map(as_request, value))
    if not isinstance(value, dict):
        return _bytes(value)
    headers = value.get("headers")
    lines = [f"{key}: {_text(one)}" for key, one in headers.items()] if isinstance(headers, dict) else [_text(headers)]
    body = as_json(value["body"]) if value.get("body") is not None else b""
    if isinstance(headers, (dict, list, str)) and "Transfer-Encoding" in headers:
        half = len(body) // 2
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:], b"") if part or part is not body)
    elif body:
        lines.append(f"Content-Length: {len(body)}")
    first = f"{_text(value.get('method', 'GET'))} {_text(value.get('target', '/'))} HTTP/1.1"
    return _bytes("\r\n".join([first, *lines, "", ""])) + body


def _text(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value).decode("utf-8", "surrogateescape")


def _bytes(value: Any) -> bytes:
    return _text(value).encode("utf-8", "surrogatepass")


class _Wire(asyncio.Transport):
    """What a socket does for a server, without one."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed = bytearray(), False
        self.reader: Any = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.reader = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class ServedInProcess(logging.Handler):
    """A server without a socket; `ask` gives it the bytes of one connection. Whatever it would log as an error fails the test."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(logging.ERROR)
        self.config, self.loop, self.state, self.failed = config, asyncio.new_event_loop(), ServerState(), list[str]()
        config.load()
        for name in _LOGS:
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.failed.append(str(record.exc_info[1]) if record.exc_info else record.getMessage())

    def ask(self, content: bytes, at: int | None = None) -> bytes:
        """What it answers to content in two pieces, the first of which has `at` bytes. Raises AssertionError for what must not happen."""
        written = self.loop.run_until_complete(self._answered(content, at))
        assert not self.failed, self.failed.pop()
        assert all(status < 500 for status in statuses_of(written)), f"{max(statuses_of(written))}"
        return written

    async def _answered(self, content: bytes, at: int | None) -> bytes:
        wire = _Wire()
        wire.set_protocol(self.config.http_protocol_class(config=self.config, server_state=self.state, app_state={}, _loop=self.loop))  # type: ignore[call-arg]
        wire.reader.connection_made(wire)
        at = len(content) // 2 if at is None else at
        for part in (content[:at], content[at:]):
            if part and not wire.closed:
                wire.reader.data_received(part)
            await self._settled()
        wire.reader.connection_lost(None)
        await self._settled()
        assert not self.state.tasks, "it goes on for a client that has left"
        assert not self.state.connections, "it still counts a client that has left"
        return bytes(wire.written)

    async def _settled(self) -> None:
        for _ in range(TURNS):
            if not self.state.tasks:
                return
            await asyncio.sleep(0)

    def end(self) -> None:
        for name in _LOGS:
            logging.getLogger(name).removeHandler(self)
        self.loop.close()


def statuses_of(written: bytes) -> list[int]:
    return [int(status) for status in STATUS.findall(written)]


def refuse_refused(written: bytes) -> None:
    """Raise ValueError unless every request was answered as it wished: for the fuzzer, which counts both."""
    statuses = statuses_of(written)
    if not statuses or max(statuses) >= 400:
        raise ValueError("refused")


def over_a_socket(url: str, host: str) -> Callable[[bytes], None]:
    """Asks the server at `url` with the bytes of a connection, in which `host` stands for its name. Raises ValueError for a refusal."""
    at = httpx.URL(url)

    def ask(content: bytes) -> None:
        with socket.create_connection((at.host, at.port or 0), 5) as opened:
            opened.settimeout(5)
            told = b""
            with suppress(ConnectionResetError, BrokenPipeError):  # it has hung up
                opened.sendall(content.replace(host.encode(), at.netloc))
                opened.shutdown(socket.SHUT_WR)
                while part := opened.recv(65_536):
                    told += part
        assert all(status < 500 for status in statuses_of(told)), f"{max(statuses_of(told))}"
        refuse_refused(told)

    return ask


def highest_mib(pid: int) -> int:
    """The most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) // 1024
