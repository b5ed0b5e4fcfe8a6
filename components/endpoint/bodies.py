"""The head and body of a response, read piece by piece and no further than they may be long: no server decides how much memory or time they take.

Nothing packed is asked for. What comes packed all the same is unpacked here, because httpx unpacks each piece as a whole, and 64 kB of
gzip can be 64 MB of zeros. To stop reading is to close the connection.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import httpcore
import httpx

# Unpacked. The longest answers of models have a tenth of it, and so has the list of the models of the largest provider. JSON of this size
# takes up to 25 times as much memory when it is parsed.
MOST_BYTES = 4 * 2**20
MOST_HEAD_BYTES = 8192
PLAIN = {"Accept-Encoding": "identity"}  # a header of every request


# httpx takes a head that arrives whole at any length, and blanks in it cost h11 the square of their number: 60 KB of them held a client up.
for connection in (httpcore.AsyncHTTP11Connection, httpcore.HTTP11Connection):
    connection.READ_NUM_BYTES = connection.MAX_INCOMPLETE_EVENT_SIZE = MOST_HEAD_BYTES


class UnusableBody(ValueError):
    """A good status with a body that is too long, packed in an unknown way or no JSON; the message holds no word of it."""


@dataclass(frozen=True)
class WholeResponse:
    """A response that has arrived, unpacked. Where the status is no success a body that cannot be used is empty: the status says enough."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300


async def read(response: httpx.Response, most_bytes: int = MOST_BYTES) -> WholeResponse:
    """The whole of a response of `AsyncClient.stream`. Raises UnusableBody, and httpx.TransportError."""
    body = _BodyReader(response, most_bytes)
    async for piece in response.aiter_raw():
        if not body.takes(piece):
            break
    return body.whole()


def read_now(response: httpx.Response, most_bytes: int = MOST_BYTES) -> WholeResponse:
    """The same for `Client.stream`."""
    body = _BodyReader(response, most_bytes)
    for piece in response.iter_raw():
        if not body.takes(piece):
            break
    return body.whole()


def parse_json(content: bytes | str) -> Any:
    """Raises UnusableBody for what is no JSON, also for NaN and Infinity, numbers too long to read and lists nested too deep."""
    try:
        return json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise UnusableBody("the body is no JSON") from None


def _refuse(_: str) -> NoReturn:
    raise ValueError("no number of JSON")


class _BodyReader:
    """What has come so far. Both sizes are bounded: a packed stream may go on for ever and unpack to nothing."""

    def __init__(self, response: httpx.Response, most_bytes: int) -> None:
        self._response = response
        self._most_bytes = most_bytes
        self._received = 0
        self._content = bytearray()
        packing = response.headers.get("content-encoding", "").strip().lower()
        self._unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS + 32) if packing in {"gzip", "deflate"} else None
        self._fault = None if self._unpack or packing in {"", "identity"} else "the body is packed in a way that was not asked for"

    def takes(self, piece: bytes) -> bool:
        """Whether to go on reading after this piece."""
        self._received += len(piece)
        try:
            room = self._most_bytes - len(self._content) + 1
            self._content += piece if self._unpack is None else self._unpack.decompress(piece, room)
        except zlib.error:
            self._fault = "the body cannot be unpacked"
        if max(self._received, len(self._content)) > self._most_bytes:
            self._fault = f"the body has more than {self._most_bytes:,} bytes"
        return self._fault is None

    def whole(self) -> WholeResponse:
        if self._fault and self._response.is_success:
            raise UnusableBody(self._fault)
        return WholeResponse(self._response.status_code, self._response.headers, b"" if self._fault else bytes(self._content))
