"""Chat endpoints of a run: address and key from the environment, numbers from the parameters, answers in one file."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from rlver.components.domain.files import BadFile
from rlver.components.endpoint.address import check_base_url
from rlver.components.endpoint.answers import RecordedEndpoint
from rlver.components.endpoint.chat import BudgetExceeded, ChatAnswer, ChatRequest
from rlver.components.endpoint.ledger import Ledger
from rlver.components.endpoint.opening import EndpointRun, check_endpoint, list_models, open_endpoint, open_ledger
from rlver.components.endpoint.parameters import EndpointParameters
from rlver.components.settings.settings import Settings
from rlver.tasks.runtime import environment

logger = logging.getLogger(__name__)

ANSWERS = Path("answers")
STORED = "answers that a model of this name gave before; give another model or revision a name of its own, or it gets them too"
_EXPERIMENTS = (".dvc", "tmp", "exps")  # where DVC runs an experiment, in a folder of its own that goes afterwards


@dataclass
class Connection:
    """A ChatEndpoint that is open inside `async with` and can be opened again: each batch of dialogues has an event loop of its own.

    `models` are those that will be asked. With `replay` nobody is asked: what is not stored raises NotRecorded. What is counted is counted
    over all openings, and so is what the server was found to understand; a breaker and a pace begin anew with each.
    """

    parameters: EndpointParameters
    server: environment.ServerAddress
    models: Sequence[str]
    answers: Path
    replay: bool
    run: EndpointRun
    _context: AbstractAsyncContextManager[RecordedEndpoint] | None = field(default=None, init=False)
    _open: RecordedEndpoint | None = field(default=None, init=False)

    def check(self) -> None:
        """Find what can be known before anything is spent. Raises EndpointError or BadFile, in one line that says what to do.

        The server is asked for its models, free of charge. With a budget every model needs a price; a replay needs a file.
        """
        if self.replay:
            if not self.answers.is_file():
                raise BadFile(f"{self.answers}: no such file, so there is nothing to replay; run once without replay to record it")
            return
        unpriced = [model for model in self.models if model not in self.parameters.prices]
        if self.parameters.budget is not None and unpriced:
            raise BudgetExceeded(
                f"{unpriced[0]!r} has no price, so the budget cannot be kept: add it to endpoint.prices in params.yaml, or set no budget"
            )
        asyncio.run(check_endpoint(self.parameters, self.server.key, self.models))

    def listed(self) -> list[str]:
        """The models of the server, as it lists them. Raises EndpointError."""
        return asyncio.run(list_models(self.parameters, self.server.key))

    async def chat(self, request: ChatRequest) -> ChatAnswer:
        if self._open is None:
            raise RuntimeError("the connection is not open")
        return await self._open.chat(request)

    def line(self) -> str:
        """Calls, tokens, money and latencies of this run so far, for a progress bar."""
        with self._ledger() as ledger:
            return ledger.line()

    def summary(self) -> dict[str, float]:
        """The same as numbers; `recorded_money_at_most` is of all runs that share the file, and what a budget bounds."""
        with self._ledger() as ledger:
            return ledger.summary(of_this_run=True) | {"recorded_money_at_most": ledger.summary()["money_at_most"]}

    def _ledger(self) -> AbstractContextManager[Ledger]:
        return open_ledger(self.parameters, self.answers, self.replay, self.run)

    async def __aenter__(self) -> RecordedEndpoint:
        self._context = open_endpoint(self.parameters, self.server.key, self.answers, self.replay, self.run)
        self._open = await self._context.__aenter__()
        return self._open

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        context, self._context, self._open = self._context, None, None
        if context is not None:
            await context.__aexit__(kind, error, trace)


def warn_of_stored(server: Connection | None) -> None:
    """On stderr, where replies were not asked for now: nobody can tell whether it is still the same model. A replay wants them."""
    if server is not None and not server.replay and (stored := server.summary()["cache_hits"]):
        print(f"warning: {stored:.0f} replies are {STORED} ({server.answers})", file=sys.stderr)


def to_user(settings: Settings, models: Sequence[str] | None = None, answers: str = "user.db") -> Connection:
    """To the server of the simulated user; `models`: others than the parameters name, `answers`: where they are kept. Raises NoServer."""
    llm = settings.simulator.llm
    named = [model for model in (llm.appraiser.model, llm.speaker.model) if model]
    return _connection(settings, "user", models or named, answers)


def to_policy(settings: Settings, models: Sequence[str], url: str | None = None) -> Connection:
    """To the server of a policy that is only talked with (answers/policy.db), at `url` or where the environment says. Raises NoServer."""
    return _connection(settings, "policy", models, "policy.db", url)


def _connection(settings: Settings, role: environment.Role, models: Sequence[str], answers: str, url: str | None = None) -> Connection:
    server = environment.chat_server(role, url=url)
    numbers = settings.endpoint.model_dump(exclude={"budget"})
    given = environment.budget()
    try:
        check_base_url(server.url)
    except ValueError as error:
        raise ValueError(f"{server.url_variable}: {error}") from error
    if server.key_left_out and not environment.replays():
        logger.warning("%s", server.key_left_out)
    parameters = EndpointParameters(
        **numbers,
        base_url=server.url,
        key_variable=server.key_variable,
        jitter_seed=settings.seed,
        budget=settings.endpoint.budget if given is None else given,
    )
    return Connection(parameters, server, models, answers_folder() / answers, environment.replays(), EndpointRun(environment.run_name()))


def answers_folder() -> Path:
    """Of the project, also for an experiment of DVC or from a folder below: what was paid for stays, and one budget holds for all."""
    here = Path.cwd().parents
    root = next((one.parents[2] for one in here if one.parts[-3:] == _EXPERIMENTS), None)
    if root is None:
        with suppress(environment.NoProject):
            root = environment.project_root()
    return ANSWERS if root in (None, Path.cwd()) else root / ANSWERS
