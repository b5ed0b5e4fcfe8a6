"""One HTTP attempt at a chat endpoint: an answer, or a fault that says what happened. Nothing is retried here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from components.endpoint.bodies import PLAIN, UnusableBody, WholeResponse, parse_json, read
from components.endpoint.chat import ChatAnswer, ChatRequest
from components.endpoint.faults import Hiccup, Place, complaint, fault_of, retry_after_s
from components.endpoint.key import Key
from components.endpoint.parameters import EndpointParameters, is_on_this_machine
from components.endpoint.wire import Dialect, malformed, parse_answer

logger = logging.getLogger(__name__)

# They log the status line and the headers of every response, in which a server may say the key back.
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class _Bearer(httpx.Auth):
    def __init__(self, key: Key) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if authorization := self._key.authorization():
            request.headers["Authorization"] = authorization
        yield request


class Connections:
    """HTTP clients of one connection each, as many as calls were ever in flight at once.

    One client with a pool of n connections looks at all n of them at every request: with 24 this was more than half of a call's CPU time.
    """

    def __init__(self, parameters: EndpointParameters, key: Key) -> None:
        self._parameters = parameters
        self._key = key
        self._tls = httpx.create_ssl_context()
        self._free: list[httpx.AsyncClient] = []

    async def request(self, method: str, path: str, content: bytes | None) -> WholeResponse:
        """Raises httpx.RequestError and UnusableBody."""
        client = self._free.pop() if self._free else self._new_client()
        headers = {} if content is None else {"Content-Type": "application/json"}
        try:
            async with client.stream(method, path, content=content, headers=headers) as response:
                return await read(response)
        finally:
            self._free.append(client)

    async def close(self) -> None:
        while self._free:
            await self._free.pop().aclose()

    def _new_client(self) -> httpx.AsyncClient:
        """Proxies of the environment hold for other machines only."""
        return httpx.AsyncClient(
            base_url=self._parameters.base_url,
            auth=_Bearer(self._key),
            headers=PLAIN,
            timeout=httpx.Timeout(None, connect=self._parameters.connect_timeout_s),
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
            verify=self._tls,
            trust_env=not is_on_this_machine(self._parameters.base_url),
        )


@asynccontextmanager
async def open_http(
    parameters: EndpointParameters, key: Key, unix_time: Callable[[], float], dialects: dict[str, Dialect]
) -> AsyncGenerator[HttpEndpoint, None]:
    connections = Connections(parameters, key)
    try:
        yield HttpEndpoint(connections, parameters, key, unix_time, dialects)
    finally:
        await connections.close()


class HttpEndpoint:
    """Asks once. Remembers in `dialects`, per model, what the server turned out to understand."""

    def __init__(
        self,
        connections: Connections,
        parameters: EndpointParameters,
        key: Key,
        unix_time: Callable[[], float],
        dialects: dict[str, Dialect],
    ) -> None:
        self._connections = connections
        self._url = parameters.base_url.rstrip("/")
        self._answer_timeout_s = parameters.answer_timeout_s
        self._key = key
        self._unix_time = unix_time
        self._dialects = dialects

    async def chat(self, request: ChatRequest) -> ChatAnswer:
        """Raises Hiccup when another attempt may help, else EndpointRefused."""
        dialect = self._dialects.get(request.model, Dialect())
        clock = asyncio.get_running_loop().time
        begun_at = clock()
        response = await self.send("POST", "chat/completions", dialect.body(request))
        if response.status_code == 200:
            return parse_answer(response.content, clock() - begun_at, self._key)
        if response.status_code in {400, 422}:
            said, _ = complaint(json_or_none(response.content), self._key)
            if understood := dialect.after(request, said):
                self._dialects[request.model] = understood
                logger.warning("%s: %r refused a parameter (%s); asking without it", self._url, request.model, said)
                raise Hiccup("dialect", f"HTTP {response.status_code}: {said}", "check the parameters", server_is_well=True)
        raise self.fault(response, request.model)

    def fault(self, response: WholeResponse, model: str) -> Exception:
        pause_s = retry_after_s(response.headers, self._unix_time())
        return fault_of(response.status_code, json_or_none(response.content), pause_s, Place(self._url, model, self._key))

    async def send(self, method: str, path: str, content: bytes | None = None) -> WholeResponse:
        """Any complete response within the time allowed; raises Hiccup when there is none."""
        try:
            async with asyncio.timeout(self._answer_timeout_s):
                return await self._connections.request(method, path, content)
        except TimeoutError:
            fault = Hiccup(
                "time_out",
                f"no answer within {self._answer_timeout_s:g} s",
                "raise answer_timeout_s, or lower concurrency or max_tokens",
                may_have_cost=True,
            )
        except UnusableBody as error:
            fault = malformed(str(error))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            what = self._key.hide(str(error)) or "time-out"
            fault = Hiccup("no_connection", f"no connection ({what})", "is the server running, and is the address right?")
        except httpx.RequestError as error:
            fault = Hiccup(
                "broken_connection",
                f"the connection broke ({type(error).__name__})",
                "the server has trouble: try again later, answered calls are kept",
                may_have_cost=True,
            )
        raise fault


def json_or_none(content: bytes) -> Any:
    """What an error's body says, if it is JSON."""
    try:
        return parse_json(content)
    except UnusableBody:
        return None
