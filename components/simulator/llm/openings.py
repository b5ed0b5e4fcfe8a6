"""First messages that a model had to be asked for: once per persona, however many dialogues with it begin at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Openings:
    """Remembers what was answered. Those who come while the question is under way get the same answer, or the same failure.

    A failure is not remembered: the next dialogue asks again.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._asked: dict[str, asyncio.Task[str]] = {}

    async def of(self, persona_id: str, ask: Callable[[], Coroutine[Any, Any, str]]) -> str:
        """The first message of the persona; raises what `ask` raises."""
        if persona_id not in self._known:
            if persona_id not in self._asked:
                task = self._asked[persona_id] = asyncio.create_task(ask())
                task.add_done_callback(lambda _: self._asked.pop(persona_id))
            # Shielded: a dialogue that is cancelled while waiting does not take the answer from the others.
            self._known[persona_id] = await asyncio.shield(self._asked[persona_id])
        return self._known[persona_id]
