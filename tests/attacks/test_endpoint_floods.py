"""Bodies without an end and nonsense of a policy server take no memory and end in one line."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from hostile_endpoint import MODEL, asked_once
from scripted_server import Asked, Reply, answer_to, ask, good, key, parameters, serving_beside

from rlver.components.endpoint.chat import EndpointRefused, EndpointUnavailable
from rlver.components.endpoint.opening import check_endpoint, open_endpoint
from rlver.components.policy.policy_server import PolicyServer, PolicyServerFailed
from rlver.components.policy.vllm_sampler import VllmSampler

MOST_MEMORY = 64 * 2**20  # bytes; an answer may have 4 MiB


# Bodies without an end.


@dataclass
class Flood:
    """What a server sends to whoever asks, until the connection is closed or `most` bytes are out."""

    status: str
    headers: bytes
    piece: bytes
    most: int
    start: bytes = b""
    sent: int = 0
    was_cut: bool = False
    url: str = ""

    def pour(self, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 " + self.status.encode() + b"\r\n" + self.headers + b"\r\n\r\n" + self.start)
        try:
            while self.sent < self.most:
                connection.sendall(self.piece)
                self.sent += len(self.piece)
        except OSError:
            self.was_cut = True


def chunk(content: bytes) -> bytes:
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


def endless(status: str) -> Flood:
    """300 MB of chunks."""
    return Flood(status, b"Content-Type: application/json\r\nTransfer-Encoding: chunked", chunk(b" " * 65_536), 300_000_000)


@cache
def packed_spaces() -> bytes:
    return gzip.compress(b" " * 100_000_000, compresslevel=1)


def bomb(status: str) -> Flood:
    """100 MB of spaces in gzip."""
    packed = packed_spaces()
    head = f"Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}"
    return Flood(status, head.encode(), packed, len(packed))


def nothing_in_gzip(status: str) -> Flood:
    """300 MB of empty blocks that unpack to nothing."""
    start, empty = b"\x1f\x8b\x08\0\0\0\0\0\0\xff", b"\0\0\0\xff\xff" * 13_107
    head = b"Content-Type: application/json\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked"
    return Flood(status, head, chunk(empty), 300_000_000, chunk(start))


@contextmanager
def pouring(flood: Flood) -> Iterator[Flood]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                request = b""
                while b"\r\n\r\n" not in request:
                    request += connection.recv(65_536)
                flood.pour(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    flood.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield flood
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(20)


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY, f"{peak:,} bytes"


FLOODS = pytest.mark.parametrize("kind", [endless, bomb, nothing_in_gzip])


@FLOODS
@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "500 No"])
def test_an_answer_without_an_end_is_a_fault_of_one_line_and_the_connection_is_closed(
    tmp_path: Path, kind: Callable[[str], Flood], status: str
) -> None:
    async def run(url: str) -> str:
        async with open_endpoint(parameters(f"{url}/v1", attempts=1), key, tmp_path / "a.db", False) as endpoint:
            with pytest.raises(EndpointRefused if status.startswith("4") else EndpointUnavailable) as caught:
                await endpoint.chat(ask("a"))
            return str(caught.value)

    flood = kind(status)
    with pouring(flood), little_memory():
        said = asyncio.run(run(flood.url))
    assert ("a malformed answer (the body has more than" if status == "200 OK" else f"HTTP {status[:3]}") in said
    assert flood.sent < 30_000_000 and (kind is bomb or flood.was_cut)


@FLOODS
def test_a_list_of_models_without_an_end_is_refused(kind: Callable[[str], Flood]) -> None:
    flood = kind("200 OK")
    with pouring(flood), little_memory(), pytest.raises(EndpointUnavailable, match="the body has more than 4,194,304 bytes"):
        asyncio.run(check_endpoint(parameters(f"{flood.url}/v1"), key, [MODEL]))
    assert flood.sent < 30_000_000


@FLOODS
@pytest.mark.parametrize("status", ["200 OK", "500 No"])
def test_a_policy_server_without_an_end_is_refused(kind: Callable[[str], Flood], status: str) -> None:
    flood = kind(status)
    with pouring(flood), little_memory(), pytest.raises(PolicyServerFailed, match="the body has more than" if status[0] == "2" else "500"):
        PolicyServer(flood.url).version()
    assert flood.sent < 60_000_000


@FLOODS
def test_a_sample_without_an_end_is_refused(kind: Callable[[str], Flood]) -> None:
    flood = kind("200 OK")

    async def run() -> None:
        sampler = VllmSampler(flood.url, 0, 1.0, 1.0, 1, Path)
        try:
            await sampler.ask(b"{}")
        finally:
            await sampler.close()

    with pouring(flood), little_memory(), pytest.raises(PolicyServerFailed, match="the body has more than"):
        asyncio.run(run())
    assert flood.sent < 60_000_000


def test_nothing_packed_is_asked_for_and_what_comes_packed_is_read(tmp_path: Path) -> None:
    def packs(number: int, asked: Asked) -> Reply:
        assert asked.headers["accept-encoding"] == "identity"
        return Reply(body=gzip.compress(good(asked).body), headers=(("Content-Encoding", "gzip"),))

    answer, calls = asked_once(tmp_path, packs)
    assert answer.text == answer_to("a") and calls["calls"] == 1


@pytest.mark.parametrize("packing", ["br", "gzip, gzip", "zstd", "x"])
def test_what_is_packed_in_another_way_is_a_malformed_answer(tmp_path: Path, packing: str) -> None:
    def packs(number: int, asked: Asked) -> Reply:
        return Reply(body=good(asked, text="no").body, headers=(("Content-Encoding", packing),)) if number == 0 else good(asked)

    answer, calls = asked_once(tmp_path, packs)
    assert answer.text == answer_to("a") and calls["failed/malformed"] == 1


# A policy server that says other things than it must.


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{}", b'{"weight_version": 5}', b"[" * 100_000, b"[" * 900 + b"]" * 900, b'{"weight_version": ["\\ud800"]}'],
)
def test_a_policy_server_that_says_nonsense_has_failed(body: bytes) -> None:
    with serving_beside(lambda number, asked: Reply(body=body)) as server, pytest.raises(PolicyServerFailed) as caught:
        PolicyServer(server.url).version()
    assert str(caught.value).isprintable() and len(str(caught.value)) < 600


def test_the_charset_of_an_error_unpacks_nothing() -> None:
    """`charset=zlib` is a codec of Python."""
    packed = zlib.compress(b" " * 100_000_000, 1)
    reply = Reply(500, packed, (("Content-Type", "text/plain; charset=zlib"),))
    with serving_beside(lambda number, asked: reply) as server, little_memory(), pytest.raises(PolicyServerFailed, match="got 500"):
        PolicyServer(server.url).version()


# Heads.


def test_a_head_of_blanks_holds_no_client_up(tmp_path: Path) -> None:
    """h11 takes the square of the blanks before a bad byte: 60 KB, sent at once, held a client for seven seconds."""
    blanks = b"HTTP/1.1 200 OK\r\nRetry-After:" + b" " * 60_000 + b"\x00\r\nContent-Length: 0\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(blanks)
        await writer.drain()
        writer.close()

    async def one() -> float:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with server, open_endpoint(parameters(url, attempts=1), key, tmp_path / "answers.db", replay=False) as endpoint:
            began = time.process_time()
            with pytest.raises(EndpointUnavailable):
                await endpoint.chat(ask("a"))
            return time.process_time() - began

    assert asyncio.run(one()) < 1
