"""`rlver personas generate --backend llm`: a model writes personas through the endpoint into FILE, its counts into FILE.report.json.

While it runs, FILE.unfinished.jsonl has the valid personas so far. Every answer is kept: the same command goes on where it ended.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlver.components.domain.files import write_json, write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.personas.library import load_library
from rlver.components.personas.schema import validate_file, validate_personas
from rlver.components.settings.settings import Settings
from rlver.tasks.runtime.connections import Connection, to_user
from rlver.tasks.studies.authoring.asking import PersonaOrder, WriterParameters
from rlver.tasks.studies.authoring.writer import Writer, Written


def write_personas(out: Path, order: PersonaOrder, settings: Settings, model: str | None, apart_from: Sequence[Path]) -> dict[str, Any]:
    """The report of the run. `apart_from` are persona files that nothing new may resemble. Raises ValueError or EndpointError."""
    parameters = writer_parameters(settings, model)
    if out.is_dir():
        raise ValueError(f"{out} is a folder: --backend llm writes one file, name it with -o")
    known = [persona for path in apart_from for persona in validate_file(path)]
    connection = to_user(settings, [parameters.model], "personas.db")
    connection.check()
    unfinished = out.with_suffix(".unfinished.jsonl")

    def taken(personas: Sequence[Persona], spent: str) -> None:
        _write(unfinished, personas)
        print(f"{len(personas)} of {order.count} personas; {spent}", file=sys.stderr)

    written = asyncio.run(_written(connection, order, parameters, settings.endpoint.concurrency, known, taken))
    validate_personas(out.name, written.personas)
    _write(out, written.personas)
    write_json(out.with_suffix(".report.json"), written.report)
    unfinished.unlink(missing_ok=True)
    return written.report


def writer_parameters(settings: Settings, model: str | None) -> WriterParameters:
    """The section `authoring`, with the model that was named. Raises ValueError when there is none."""
    named = (model or settings.authoring.model or "").strip()
    if not named:
        raise ValueError("no model writes: name one of the endpoint with --model, or as authoring.model in params.yaml")
    return WriterParameters(**settings.authoring.model_dump() | {"model": named})


async def _written(
    connection: Connection, order: PersonaOrder, parameters: WriterParameters, concurrency: int, known: Sequence[Persona], taken: Any
) -> Written:
    async with connection as endpoint:
        writer = Writer(endpoint, order, parameters, concurrency, load_library(), known)
        return await writer.write(lambda personas: taken(personas, endpoint.ledger.line()))


def _write(path: Path, personas: Sequence[Persona]) -> None:
    write_jsonl(path, [persona.model_dump(mode="json") for persona in personas])
