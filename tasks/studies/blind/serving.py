"""Holding the page open until Ctrl-C: the models of a talk, and the server in front of them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from socket import socket
from typing import get_args

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from rlver.components.settings.settings import Settings, load_settings, with_simulator
from rlver.tasks.runtime.assembly import Conversation
from rlver.tasks.runtime.conversing import as_evaluated
from rlver.tasks.runtime.policies import PolicyCandidate, candidate
from rlver.tasks.studies.blind.guard import PATIENCE_S, PageGuard, hosts_of
from rlver.tasks.studies.blind.pairs import Side

MOST_CONNECTIONS = 100  # at once, with as many again that wait to be let in: far below the files that a process may open
OPEN_TALKS = 16  # at once; each holds memory of a model in this process


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def candidates_of(
    policies: tuple[str, str] | None, variants: tuple[str, str] | None, params: Path
) -> dict[Side, tuple[PolicyCandidate, Settings]]:
    """Who is talked with, found in order before anything is loaded: decoding as in the benchmark, each with its own overlay.

    Folders speak in this process, because a server for rollouts has one model's weights.
    """
    if policies is None:
        return {}
    found: dict[Side, tuple[PolicyCandidate, Settings]] = {}
    for side, policy, variant in zip(get_args(Side), policies, variants or (None, None), strict=True):
        settings = as_evaluated(with_simulator(load_settings(params, variant), "scripted", None))  # nobody asks a simulated user
        settings = settings.model_copy(update={"rollout": settings.rollout.model_copy(update={"sampler": "transformers"})})
        found[side] = (candidate(policy, settings), settings)
    return found


@contextmanager
def open_conversations(candidates: Mapping[Side, tuple[PolicyCandidate, Settings]]) -> Iterator[Mapping[Side, Conversation]]:
    """The models, loaded or connected. Raises ValueError in one line."""
    with ExitStack() as stack:
        yield {side: stack.enter_context(who.open_conversation(settings, OPEN_TALKS)) for side, (who, settings) in candidates.items()}


def while_open(talks: Mapping[Side, Conversation]) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Policies started and connected as long as the server's event loop lasts."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for talk in talks.values():
                talk.policy.start()
                if talk.policy_connection is not None:
                    await stack.enter_async_context(talk.policy_connection)
                stack.push_async_callback(talk.policy.close)
            yield

    return lifespan


def serve(app: Starlette, host: str, port: int, say: Callable[[str], None]) -> None:
    """Answer until Ctrl-C. On another address than loopback the page asks for a key, which stands in the address that is said."""
    key = None if ip_address(host).is_loopback else secrets.token_urlsafe(16)
    shown = f"[{host}]" if ":" in host else host
    told = [f"open {f'http://{shown}:{port}/' + (f'?key={key}' if key else '')}    Ctrl-C ends it; what was answered is saved"]
    if key:
        told.append("everybody in this network who has that address can read the dialogues and answer; what they send is not encrypted")
    _Announced(config_of(PageGuard(app, hosts_of(host, port), key), host, port), lambda: say("\n".join(told))).run()


def config_of(guarded: PageGuard, host: str, port: int) -> uvicorn.Config:
    """How it is served: one process, which believes no proxy and waits for nobody."""
    return uvicorn.Config(
        guarded,
        host=host,
        port=port,
        http=_Impatient,
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=MOST_CONNECTIONS,
        timeout_graceful_shutdown=2,
    )


class _Impatient(H11Protocol):
    """Hangs up on a client that does not say whole what it wants, or does not read what it is told: each holds one of few connections.

    Where there are too many, the one that has been waited for longest goes at once, so that the next person is always let in.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since_s = self.loop.time()
        self._next_look = self.loop.call_later(PATIENCE_S, self._look_again, self.cycle)
        here = [one for one in self.connections if isinstance(one, _Impatient) and not one.transport.is_closing()]
        if len(here) > MOST_CONNECTIONS:
            min(here, key=lambda one: (one._is_ours_to_move(), one._since_s)).transport.abort()

    def _is_ours_to_move(self) -> bool:
        return self.cycle is not None and not self.cycle.response_started and not self.flow.write_paused

    def _look_again(self, last: object) -> None:
        """`last`: what was being answered when it was looked before."""
        if self.cycle is last and not self._is_ours_to_move():
            self.transport.abort()
        else:
            self._next_look = self.loop.call_later(PATIENCE_S, self._look_again, self.cycle)

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


class _Announced(uvicorn.Server):
    """Says where it is once it listens."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()


def check_host(host: str) -> None:
    """Raises ValueError for what a browser could not be told to open."""
    try:
        address = ip_address(host)
    except ValueError as error:
        raise ValueError(f"--host takes the number of an address of this machine, as 127.0.0.1, got {host!r}") from error
    if address.is_unspecified:
        raise ValueError(f"--host {host} is every address at once: name the one that the others will open")
