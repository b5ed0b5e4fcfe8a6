"""An endpoint, ready to be asked: stored answers, then the budget, the limits and the retries, then HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from uuid import uuid4

from rlver.components.domain.printable import whole_characters
from rlver.components.endpoint.answers import Answers, RecordedEndpoint
from rlver.components.endpoint.chat import BudgetExceeded, EndpointRefused, EndpointUnavailable, Hiccup, Key, one_line
from rlver.components.endpoint.client import Dialect, json_or_none, open_http
from rlver.components.endpoint.ledger import Database, Ledger, memory_database, open_database, open_for_replay
from rlver.components.endpoint.parameters import EndpointParameters
from rlver.components.endpoint.retries import RetryingEndpoint

_COMPARED = 1000  # models of a server's list, for one that it does not have


@dataclass(frozen=True)
class EndpointRun:
    """What several openings of an endpoint have in common, when they serve one run. `name` marks its calls in the file."""

    name: str
    dialects: dict[str, Dialect] = field(default_factory=dict)
    replayed: Database = field(default_factory=memory_database)  # the calls of a replay, whose file stays as it is


@asynccontextmanager
async def open_endpoint(
    parameters: EndpointParameters,
    key: Callable[[], str | None],
    cache_path: Path,
    replay: bool,
    run: EndpointRun | None = None,
) -> AsyncGenerator[RecordedEndpoint, None]:
    """Yields a ChatEndpoint with a `ledger`. `key` returns the API key, or None where the server needs none.

    `cache_path` is one SQLite file, made if missing; runs that share it share answers, totals and budget. With `replay` it is only
    read and nothing else is asked: a request that it does not hold raises NotRecorded. Raises BadFile when the file cannot be used.
    `run`: the run that this opening belongs to, by default one of its own.
    """
    run = run or EndpointRun(uuid4().hex)
    if replay:
        with stored_answers(cache_path, run) as endpoint:
            yield endpoint
        return
    secret = Key(key, parameters.key_variable)
    with open_ledger(parameters, cache_path, replay, run) as ledger:
        async with open_http(parameters, secret, run.dialects) as http:
            endpoint = RecordedEndpoint(Answers(ledger.database), ledger, RetryingEndpoint(http, parameters, ledger))
            try:
                yield endpoint
            except BudgetExceeded:
                await endpoint.finish()
                raise
            finally:
                await endpoint.close()


@contextmanager
def stored_answers(cache_path: Path, run: EndpointRun) -> Generator[RecordedEndpoint, None, None]:
    """Answers what is stored and raises NotRecorded for all else. Raises BadFile when there is no such file."""
    with closing(open_for_replay(cache_path)) as recorded:
        yield RecordedEndpoint(Answers(recorded), Ledger(run.replayed, {}, None, run.name, ""), upstream=None)


@contextmanager
def open_ledger(parameters: EndpointParameters, cache_path: Path, replay: bool, run: EndpointRun) -> Generator[Ledger, None, None]:
    """What `run` has cost so far, while no endpoint is open."""
    if replay:
        yield Ledger(run.replayed, {}, None, run.name, "")
        return
    with closing(open_database(cache_path)) as database:
        yield Ledger(database, parameters.prices, parameters.budget, run.name, parameters.currency)


async def check_endpoint(parameters: EndpointParameters, key: Callable[[], str | None], models: Iterable[str]) -> None:
    """Raises what `list_models` raises, and EndpointRefused for a model that the server does not list. Servers without a list pass.

    NAME:SUFFIX passes where NAME is listed (routers), NAME where NAME:latest is (Ollama), and what a wildcard of the list fits.
    """
    secret = Key(key, parameters.key_variable)
    names = await _listed(parameters, secret)
    for model in models:
        if names and not _has(names, model):
            near = ", ".join(one_line(name, secret) for name in get_close_matches(model, names[:_COMPARED], n=3) or names[:3])
            more = "" if len(names) <= 3 else ", …"
            raise EndpointRefused(f"{parameters.url}: unknown model {model!r}; the server has {near}{more}")


def _has(names: list[str], model: str) -> bool:
    same = {model, f"{model}:latest", model.rpartition(":")[0] or model}
    return any(name in same or ("*" in name and fnmatchcase(model, name)) for name in names)


async def list_models(parameters: EndpointParameters, key: Callable[[], str | None]) -> list[str]:
    """Ask the server, once and free of charge, for its models, before anything is spent; none where it has no list (404, 405).
    A key in a name is hidden, as in answers.

    Raises EndpointUnavailable when nobody answers, EndpointRefused for a wrong key.
    """
    secret = Key(key, parameters.key_variable)
    return [whole_characters(secret.hide_secret(name)) for name in await _listed(parameters, secret)]


async def _listed(parameters: EndpointParameters, secret: Key) -> list[str]:
    """The names as they came, which may say the key back."""
    async with open_http(parameters, secret, {}) as http:
        try:
            response = await http.send("GET", "models")
            if response.status_code in {404, 405}:
                return []
            if response.status_code != 200:
                raise http.fault(response, "")
        except Hiccup as hiccup:
            raise EndpointUnavailable(f"{parameters.url}: {hiccup.what}; {hiccup.advice}") from None
    body = json_or_none(response.content)
    listed = body.get("data") if isinstance(body, dict) else None
    if not isinstance(listed, list):
        return []
    return [row["id"] for row in listed if isinstance(row, dict) and isinstance(row.get("id"), str)]
