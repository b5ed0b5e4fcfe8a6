"""Who is meant by an appraiser on the command line, and asking it: `scripted[:DIFFICULTY]`, `llm[:DIFFICULTY]` or `distilled:FOLDER`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from components.evaluation.appraisers import Appraiser, DistilledAppraiser, LLMAppraiser, ScriptedAppraiser
from components.settings import Settings
from components.simulator.distilled.folder import folder_of, read_folder
from tasks.dialogue_commands import with_simulator

if TYPE_CHECKING:
    from tasks.connections import Connection

SCRIPTED, LLM, DISTILLED = "scripted", "llm", "distilled"
T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """An appraiser and, where it is a model, the connection that is open while it is asked."""

    appraiser: Appraiser
    connection: Connection | None = None

    def run(self, ask: Callable[[Appraiser], Coroutine[Any, Any, T]]) -> T:
        async def connected() -> T:
            async with self.connection or nullcontext():
                return await ask(self.appraiser)

        return asyncio.run(connected())


def is_appraiser(named: str) -> bool:
    return named.partition(":")[0] in (SCRIPTED, LLM, DISTILLED)


def appraiser_of(named: str, settings: Settings) -> Asked:
    """The appraiser `named`; a model's server is found in order, so that nothing is spent in vain. Raises ValueError or EndpointError."""
    kind, _, which = named.partition(":")
    if kind == SCRIPTED:
        return Asked(ScriptedAppraiser(which or settings.simulator.difficulty))
    if kind == DISTILLED:
        return Asked(DistilledAppraiser(read_folder(folder_of(named))))
    if kind == LLM:
        from components.simulator.llm.simulator import LLMSimulator
        from tasks.stages.assembly import simulator, user_connection

        played = with_simulator(settings, LLM, which or None)
        connection = user_connection(played)
        user = simulator(played, endpoint=connection)
        assert isinstance(user, LLMSimulator)
        return Asked(LLMAppraiser(user), connection)
    raise ValueError(f"unknown appraiser {named!r}: choose {SCRIPTED}[:DIFFICULTY], {LLM}[:DIFFICULTY] or {DISTILLED}:FOLDER")
