"""Small HTTP servers of our own on a loopback port: how they are run, and how long a client may keep a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ipaddress import ip_address
from socket import socket

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from rlver.tasks.runtime.guard import PATIENCE_S

MOST_HEAD = 2**13  # bytes of a request without its body
_SLICE = 2**12
MOST_FRAME = 2**20  # bytes of a message over a web socket
MOST_CONNECTIONS = 100  # at once, with as many again that wait to be let in: far below the files that a process may open


def check_host(host: str) -> None:
    """Raises ValueError for what nobody could be told to open."""
    try:
        address = ip_address(host)
    except ValueError as error:
        raise ValueError(f"--host takes the number of an address of this machine, as 127.0.0.1, got {host!r}") from error
    if address.is_unspecified:
        raise ValueError(f"--host {host} is every address at once: name the one that the others will open")


def config_of(guarded: ASGIApp, host: str, port: int, web_sockets: type[asyncio.Protocol] | None = None) -> uvicorn.Config:
    """How it is served: one process, which believes no proxy and waits for nobody. `web_sockets`: what reads them, where there are any."""
    return uvicorn.Config(
        guarded,
        host=host,
        port=port,
        http=Impatient,
        h11_max_incomplete_event_size=MOST_HEAD,
        ws=web_sockets or "none",
        ws_max_size=MOST_FRAME,
        ws_per_message_deflate=False,  # a thousand times what was sent
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=MOST_CONNECTIONS,
        timeout_graceful_shutdown=2,
    )


class Impatient(H11Protocol):
    """Hangs up on a client that does not say whole what it wants, or does not read what it is told: each holds one of few connections.

    Where there are too many, the one that has been waited for longest goes at once, so that the next person is always let in.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since_s, self._is_web_socket = self.loop.time(), False
        self._next_look = self.loop.call_later(PATIENCE_S, self._look_again, self.cycle)
        here = [one for one in self.connections if isinstance(one, Impatient) and not one.transport.is_closing()]
        if len(here) > MOST_CONNECTIONS:
            min(here, key=lambda one: (one._is_ours_to_move(), one._since_s)).transport.abort()

    def _is_ours_to_move(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused

    def _look_again(self, last: object) -> None:
        """`last`: what was being answered when it was looked before."""
        if self.cycle is last and not self._is_ours_to_move():
            self.transport.abort()
        else:
            self._next_look = self.loop.call_later(PATIENCE_S, self._look_again, self.cycle)

    def data_received(self, data: bytes) -> None:
        """In slices: h11 reads a head that is there whole at any length, and blanks in it take it the square of their number."""
        for begin in range(0, len(data), _SLICE):
            if not self._is_web_socket and not self.transport.is_closing():
                super().data_received(data[begin : begin + _SLICE])

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From here on the pings of the web socket find out who has left."""
        self._is_web_socket = True
        self._next_look.cancel()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """To a body that breaks HTTP too: uvicorn would let the page answer as well, and fail at that."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_look.cancel()
        super().connection_lost(exc)


class Announced(uvicorn.Server):
    """Says where it is once it listens; `stops` is called when it is told to stop, before it waits for what is under way."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None], stops: Callable[[], None] = lambda: None) -> None:
        super().__init__(config)
        self._announce, self._stops = announce, stops

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        self._stops()
        await super().shutdown(sockets)
