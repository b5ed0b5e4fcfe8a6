"""An endpoint, ready to be asked: stored answers, then the budget, the limits and the retries, then HTTP."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, closing
from difflib import get_close_matches
from pathlib import Path

from components.endpoint.answers import Answers
from components.endpoint.chat import EndpointRefused, EndpointUnavailable
from components.endpoint.client import json_or_none, open_http
from components.endpoint.database import memory_database, open_database, open_for_replay
from components.endpoint.faults import Hiccup
from components.endpoint.key import Key
from components.endpoint.ledger import Ledger
from components.endpoint.parameters import EndpointParameters
from components.endpoint.recorded import RecordedEndpoint
from components.endpoint.retries import RetryingEndpoint


@asynccontextmanager
async def open_endpoint(
    parameters: EndpointParameters,
    key: Callable[[], str | None],
    cache_path: Path,
    replay: bool,
    unix_time: Callable[[], float] = time.time,
) -> AsyncGenerator[RecordedEndpoint, None]:
    """Yields a ChatEndpoint with a `ledger`. `key` returns the API key, or None where the server needs none.

    `cache_path` is one SQLite file, made if missing; runs that share it share answers, totals and budget. With `replay` it is only
    read and nothing else is asked: a request that it does not hold raises NotRecorded. Raises BadFile when the file cannot be used.
    """
    if replay:
        with closing(open_for_replay(cache_path)) as recorded, closing(memory_database()) as passing:
            yield RecordedEndpoint(Answers(recorded), Ledger(passing, parameters.prices, None), upstream=None)
        return
    secret = Key(key, parameters.key_variable)
    with closing(open_database(cache_path)) as database:
        ledger = Ledger(database, parameters.prices, parameters.budget)
        async with open_http(parameters, secret, unix_time) as http:
            endpoint = RecordedEndpoint(Answers(database), ledger, RetryingEndpoint(http, parameters, ledger))
            try:
                yield endpoint
            finally:
                await endpoint.close()


async def check_endpoint(
    parameters: EndpointParameters, key: Callable[[], str | None], models: Iterable[str], unix_time: Callable[[], float] = time.time
) -> None:
    """Raises what `list_models` raises, and EndpointRefused for a model that the server does not list. Servers without a list pass."""
    names = await list_models(parameters, key, unix_time)
    for model in models:
        if names and model not in names:
            near = ", ".join(get_close_matches(model, names, n=3) or names[:3])
            more = "" if len(names) <= 3 else ", …"
            raise EndpointRefused(f"{parameters.base_url.rstrip('/')}: unknown model {model!r}; the server has {near}{more}")


async def list_models(
    parameters: EndpointParameters, key: Callable[[], str | None], unix_time: Callable[[], float] = time.time
) -> list[str]:
    """Ask the server, once and free of charge, for its models, before anything is spent; none where it has no list (404, 405).

    Raises EndpointUnavailable when nobody answers, EndpointRefused for a wrong key.
    """
    url = parameters.base_url.rstrip("/")
    secret = Key(key, parameters.key_variable)
    async with open_http(parameters, secret, unix_time) as http:
        try:
            response = await http.send("GET", "models")
            if response.status_code in {404, 405}:
                return []
            if response.status_code != 200:
                raise http.fault(response, "")
        except Hiccup as hiccup:
            raise EndpointUnavailable(f"{url}: {hiccup.what}; {hiccup.advice}") from None
    body = json_or_none(response.content)
    listed = body.get("data") if isinstance(body, dict) else None
    if not isinstance(listed, list):
        return []
    return [secret.hide(str(row["id"])) for row in listed if isinstance(row, dict) and "id" in row]
