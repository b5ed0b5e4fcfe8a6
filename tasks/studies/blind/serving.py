"""Holding the page open until Ctrl-C: the models of a talk, and the server in front of them."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple, get_args

from starlette.applications import Starlette

from rlver.components.settings.settings import Settings, load_settings, with_simulator
from rlver.tasks.runtime.assembly import Conversation
from rlver.tasks.runtime.conversing import as_evaluated
from rlver.tasks.runtime.guard import hosts_of
from rlver.tasks.runtime.policies import PolicyCandidate, candidate, in_this_process
from rlver.tasks.runtime.web import Announced, config_of
from rlver.tasks.studies.blind.answers import Side
from rlver.tasks.studies.blind.page import page_guard

STORED = "blind.db"  # what models behind endpoints were asked in talks: apart from other answers, for the owner alone
OPEN_TALKS = 16  # at once; each holds memory of a model in this process


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class HiddenModel(NamedTuple):
    """Who is talked with. `policy`: as it was typed; of a server the model's, because its address may have another one tomorrow."""

    policy: str
    variant: str | None
    candidate: PolicyCandidate
    settings: Settings

    @property
    def name(self) -> str:
        """What its answers are noted under: the same model is another one to talk with when it is asked to think."""
        return f"{self.policy} ({self.variant})" if self.variant else self.policy

    def open(self) -> AbstractContextManager[Conversation]:
        """Loaded or connected. Raises ValueError in one line."""
        if (connection := self.candidate.connection) and not connection.replay:  # what people write is in its answers
            connection.answers.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(connection.answers, os.O_RDWR | os.O_CREAT, 0o600))
        return self.candidate.open_conversation(self.settings, OPEN_TALKS)


def hidden_models(policies: tuple[str, str], variants: tuple[str, str] | None, params: Path) -> dict[Side, HiddenModel]:
    """Found in order before anything is loaded: decoding as in the benchmark, each with its own overlay.

    Raises ValueError for models of one name at two addresses: answers are kept by name, so both sides would say the same.
    """
    found: dict[Side, HiddenModel] = {}
    for side, policy, variant in zip(get_args(Side), policies, variants or (None, None), strict=True):
        settings = in_this_process(as_evaluated(with_simulator(load_settings(params, variant), "scripted", None)))  # nobody asks a user
        who = candidate(policy, settings)
        if who.connection:
            who = replace(who, connection=replace(who.connection, answers=who.connection.answers.with_name(STORED)))
        found[side] = HiddenModel(who.location if who.connection else policy, variant, who, settings)
    a, b = (model.candidate for model in found.values())
    if a.connection and b.connection and a.name == b.name and a.connection.parameters.url != b.connection.parameters.url:
        raise ValueError(f"both servers call their model {a.name!r}, so they could not be told apart: serve one under another name")
    return found


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
    Announced(config_of(page_guard(app, hosts_of(host, port), key), host, port), lambda: say("\n".join(told))).run()
