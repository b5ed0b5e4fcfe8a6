"""`rlver env serve`: the simulated users for anybody's trainer, until Ctrl-C.

OpenEnv has an environment of its own (docs/adapters.md): its needs and ours do not fit into one lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlver.components.domain.persona import Persona
from rlver.components.settings.settings import Settings, load_settings
from rlver.components.users.together import user_of
from rlver.tasks.runtime import environment

if TYPE_CHECKING:
    from rlver.tasks.runtime.connections import Connection

SESSIONS = 64
OTHER_SOCKETS = 16  # web sockets beside one for each session: those of clients who are told that all sessions are taken
MOST_BODY = 2**20  # bytes of a request; the longest message that a user reads has less
LOOPBACK = ("127.0.0.1", "localhost")
REWARDS = ("change", "final")
TRAIN_PERSONAS = Path("data/personas/train.jsonl")


def serve(
    settings: Settings, personas: Path | None, port: int, sessions: int, reward: str, thinking: bool, web: bool, say: Callable[[str], None]
) -> None:
    """Serve OpenEnv on this machine's loopback. Raises ValueError where openenv is not installed."""
    connection = None
    if settings.simulator.models:
        from rlver.tasks.runtime.assembly import user_connection

        connection = user_connection(settings)
    chosen = people(personas, settings)
    served = _application(settings, chosen, connection, sessions, reward, thinking, web)

    async def run() -> None:
        from rlver.tasks.runtime.web import Announced, config_of
        from rlver.tasks.runtime.web_sockets import at_most

        async with connection or nullcontext():
            config = config_of(served, LOOPBACK[0], port, at_most(sessions + OTHER_SOCKETS))
            await Announced(config, lambda: say(told)).serve()

    told = f"{len(chosen)} users at http://{LOOPBACK[0]}:{port}" + (" (page: /web)" if web else "") + "; Ctrl-C stops."
    asyncio.run(run())


def app() -> Any:
    """The application as the project's settings have it, for `uvicorn --factory`. Users who are language models need `serve`."""
    settings = load_settings(environment.project_root() / "params.yaml")
    if settings.simulator.models:
        raise ValueError("users who are language models need a connection: start them with `rlver env serve`")
    return _application(settings, people(None, settings), None, SESSIONS, REWARDS[0], thinking=False, web=False)


def _application(
    settings: Settings, chosen: list[Persona], connection: Connection | None, sessions: int, reward: str, thinking: bool, web: bool
) -> Any:
    if reward not in REWARDS:
        raise ValueError(f"unknown reward {reward!r}: choose {' or '.join(REWARDS)}")
    try:
        from starlette.responses import JSONResponse

        from rlver.components.adapters import openenv
        from rlver.tasks.runtime.guard import BoundedBodies, OwnPagesOnly, TextFrames
    except ModuleNotFoundError as error:
        raise ValueError(
            f"there is no {error.name}: pip install 'rlver[openenv]' into an environment of its own (docs/adapters.md)"
        ) from error
    offered = openenv.Offered(
        personas={one.persona_id: one for one in chosen},
        simulator_of=lambda difficulty: user_of(settings.simulator, difficulty, connection),
        rules=settings.simulator.rules,
        seeds=count(settings.seed),
        reward="change" if reward == "change" else "final",
        thinking=thinking,
    )
    made: Any = openenv.server(offered, sessions, web)
    made.add_middleware(TextFrames)
    made.add_middleware(BoundedBodies, most_bytes=MOST_BODY)
    made.add_middleware(OwnPagesOnly, names=frozenset(LOOPBACK))
    made.add_exception_handler(ValueError, lambda _, error: JSONResponse({"detail": str(error)}, 400))  # over HTTP; a web socket has words
    return made


def people(file: Path | None, settings: Settings) -> list[Persona]:
    """The personas of a file, else of the project's training split, else of the library."""
    from rlver.tasks.runtime.people import personas_from

    return personas_from(file, environment.project_root() / TRAIN_PERSONAS, settings, 0)[0]
