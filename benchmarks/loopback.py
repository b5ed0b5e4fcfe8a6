"""The HTTP/1.1 under the chat endpoints of benchmarks and tests: requests are read, connections counted, and what is answered is the caller's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """One request as it came; the names of `headers` are in small letters."""

    path: str
    headers: Mapping[str, str]
    content: bytes


Answer = Callable[[Request, asyncio.StreamWriter], Awaitable[bool]]  # False: the connection is cut


@dataclass
class Connections:
    """How many are open, and the most there ever were."""

    open: int = 0
    most: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
        """Answer what comes over one connection until either side ends it."""
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            while await answer(await _read(reader), writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return Request(first.split()[1], headers, await reader.readexactly(int(headers.get("content-length", "0"))))
