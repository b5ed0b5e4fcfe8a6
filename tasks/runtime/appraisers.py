"""Who is meant by an appraiser on the command line, and asking it: `scripted[:DIFFICULTY]`, `llm[:DIFFICULTY]` or `distilled:FOLDER`.

Transcripts as they are named on the command line: a file, or a variant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rlver.components.domain.files import BadFile
from rlver.components.domain.protocols import AppraiserKind
from rlver.components.domain.transcript import Dialogue
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import Settings, with_simulator
from rlver.components.users.distilled.appraiser import DistilledAppraiser
from rlver.components.users.distilled.folder import folder_of, read_folder
from rlver.components.users.scripted.simulator import ScriptedAppraiser

if TYPE_CHECKING:
    from rlver.tasks.runtime.connections import Connection

SCRIPTED, LLM, DISTILLED = "scripted", "llm", "distilled"
T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """An appraiser and, where it is a model, the connection that is open while it is asked."""

    appraiser: AppraiserKind
    connection: Connection | None = None

    def run(self, ask: Callable[[AppraiserKind], Coroutine[Any, Any, T]]) -> T:
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
        from rlver.components.users.llm.simulator import LLMAppraiser, LLMSimulator
        from rlver.tasks.runtime.assembly import simulator, user_connection

        played = with_simulator(settings, LLM, which or None)
        connection = user_connection(played)
        user = simulator(played, endpoint=connection)
        assert isinstance(user, LLMSimulator)
        return Asked(LLMAppraiser(user), connection)
    raise ValueError(f"unknown appraiser {named!r}: choose {SCRIPTED}[:DIFFICULTY], {LLM}[:DIFFICULTY] or {DISTILLED}:FOLDER")


TRANSCRIPTS = Path("transcripts")


def file_of_variant(named: Path) -> Path | None:
    """transcripts/<variant>.jsonl of a bare variant name; None where a file is named. Raises BadFile for neither."""
    if named.is_file() or len(named.parts) > 1 or named.suffix:
        return None
    found = TRANSCRIPTS / f"{named}.jsonl"
    if not found.is_file():
        raise BadFile(f"{named}: neither a transcript file nor a variant with {found}; `rlver converse` writes transcripts")
    return found


def read_transcripts(named: Path) -> list[Dialogue]:
    """The dialogues of a file or of a variant. Raises BadFile."""
    return load_transcripts(file_of_variant(named) or named)
