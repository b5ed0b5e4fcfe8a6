"""A chat with a scripted server through the real client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from scripted_server import Reply, Script, Server, ask, good, key, parameters, serving

from rlver.components.endpoint.answers import RecordedEndpoint
from rlver.components.endpoint.chat import ChatAnswer, ChatRequest
from rlver.components.endpoint.opening import open_endpoint


def hold(path: Path, script: Script, work: Callable[[RecordedEndpoint, Server], Awaitable[Any]], **changes: Any) -> tuple[Any, Server]:
    async def run() -> tuple[Any, Server]:
        async with serving(script) as server, open_endpoint(parameters(server.url, **changes), key, path / "answers.db", False) as endpoint:
            return await work(endpoint, server), server

    return asyncio.run(run())


def chat(path: Path, script: Script, request: ChatRequest | None = None, **changes: Any) -> tuple[ChatAnswer, Server]:
    return hold(path, script, lambda endpoint, _: endpoint.chat(request or ask("a")), **changes)


def first(*replies: Reply) -> Script:
    """These replies, then good ones."""
    return lambda number, asked: replies[number] if number < len(replies) else good(asked)
