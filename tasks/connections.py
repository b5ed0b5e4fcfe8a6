"""Chat endpoints of a run: address and key from the environment, numbers from the parameters, answers in one file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from components.endpoint.chat import ChatAnswer, ChatRequest
from components.endpoint.opening import check_endpoint, list_models, open_endpoint
from components.endpoint.parameters import EndpointParameters
from components.endpoint.prices import Price
from components.endpoint.recorded import RecordedEndpoint
from components.settings import Settings
from tasks import environment

ANSWERS = Path("answers")


@dataclass
class Connection:
    """A ChatEndpoint that is open inside `async with` and can be opened again: each batch of dialogues has an event loop of its own.

    `models` are those that will be asked. With `replay` nobody is asked: what is not stored raises NotRecorded.
    """

    parameters: EndpointParameters
    server: environment.ChatServer
    models: Sequence[str]
    answers: Path
    replay: bool
    _context: AbstractAsyncContextManager[RecordedEndpoint] | None = field(default=None, init=False)
    _open: RecordedEndpoint | None = field(default=None, init=False)

    def check(self) -> None:
        """Ask the server for its models, free of charge. Raises EndpointError, in one line that says what to do."""
        if not self.replay:
            asyncio.run(check_endpoint(self.parameters, self.server.key, self.models))

    def listed(self) -> list[str]:
        """The models of the server, as it lists them. Raises EndpointError."""
        return asyncio.run(list_models(self.parameters, self.server.key))

    async def chat(self, request: ChatRequest) -> ChatAnswer:
        if self._open is None:
            raise RuntimeError("the connection is not open")
        return await self._open.chat(request)

    @property
    def endpoint(self) -> RecordedEndpoint:
        """What is open now, with its ledger."""
        if self._open is None:
            raise RuntimeError("the connection is not open")
        return self._open

    async def __aenter__(self) -> RecordedEndpoint:
        self.answers.parent.mkdir(parents=True, exist_ok=True)
        self._context = open_endpoint(self.parameters, self.server.key, self.answers, self.replay)
        self._open = await self._context.__aenter__()
        return self._open

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        context, self._context, self._open = self._context, None, None
        if context is not None:
            await context.__aexit__(kind, error, trace)


def to_user(settings: Settings, models: Sequence[str] | None = None) -> Connection:
    """To the server of the simulated user (answers/user.db); `models`: others than the parameters name. Raises NoServer."""
    llm = settings.simulator.llm
    named = [model for model in (llm.appraiser.model, llm.speaker.model) if model]
    return _connection(settings, "user", models or named, "user.db")


def to_writer(settings: Settings, model: str) -> Connection:
    """To the server of the simulated user, for a model that writes personas (answers/personas.db). Raises NoServer."""
    return _connection(settings, "user", [model], "personas.db")


def to_policy(settings: Settings, models: Sequence[str], url: str | None = None) -> Connection:
    """To the server of a policy that is only talked with (answers/policy.db), at `url` or where the environment says. Raises NoServer."""
    return _connection(settings, "policy", models, "policy.db", url)


def _connection(settings: Settings, role: environment.Role, models: Sequence[str], answers: str, url: str | None = None) -> Connection:
    server = environment.chat_server(role, url=url)
    numbers = settings.endpoint.model_dump(exclude={"prices", "budget"})
    given = environment.budget()
    parameters = EndpointParameters(
        **numbers,
        base_url=server.url,
        key_variable=server.key_variable,
        jitter_seed=settings.seed,
        prices={model: Price(**price.model_dump()) for model, price in settings.endpoint.prices.items()},
        budget=settings.endpoint.budget if given is None else given,
    )
    return Connection(parameters, server, models, ANSWERS / answers, environment.replays())
