"""One HTTP attempt at a chat endpoint: the body of /chat/completions, and an answer or a fault that says what happened. Nothing is retried here."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx

from rlver.components.domain.printable import one_line, whole_characters
from rlver.components.endpoint.address import is_on_this_machine
from rlver.components.endpoint.bodies import MOST_BYTES, PLAIN, UnusableBody, WholeResponse, parse_json, read
from rlver.components.endpoint.chat import (
    ChatAnswer,
    ChatRequest,
    EndpointRefused,
    Hiccup,
    Key,
    Message,
    Place,
    RequestTooLong,
    complaint,
    fault_of,
    retry_after_s,
)
from rlver.components.endpoint.parameters import EndpointParameters

logger = logging.getLogger(__name__)

# They log the status line and the headers of every response, in which a server may say the key back.
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class Connections:
    """HTTP clients of one connection each, as many as calls were ever in flight at once.

    One client with a pool of n connections looks at all n of them at every request: with 24 this was more than half of a call's CPU time.
    """

    def __init__(self, parameters: EndpointParameters, key: Key) -> None:
        self._parameters = parameters
        self._key = key
        self._tls = httpx.create_ssl_context()
        self._free: list[httpx.AsyncClient] = []

    async def request(self, method: str, path: str, content: bytes | None, most_bytes: int) -> WholeResponse:
        """Raises httpx.RequestError and UnusableBody, and EndpointRefused for proxies that cannot be used."""
        client = self._free.pop() if self._free else self._new_client()
        headers = {} if content is None else {"Content-Type": "application/json"}
        try:
            async with client.stream(method, path, content=content, headers=headers) as response:
                return await read(response, most_bytes)
        finally:
            self._free.append(client)

    async def close(self) -> None:
        while self._free:
            await self._free.pop().aclose()

    def _with_key(self, request: httpx.Request) -> httpx.Request:
        if authorization := self._key.authorization():
            request.headers["Authorization"] = authorization
        return request

    def _new_client(self) -> httpx.AsyncClient:
        """Proxies of the environment hold for other machines only."""
        try:
            return httpx.AsyncClient(
                base_url=self._parameters.base_url,
                auth=self._with_key,
                headers=PLAIN,
                timeout=httpx.Timeout(None, connect=self._parameters.connect_timeout_s),
                limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
                verify=self._tls,
                trust_env=not is_on_this_machine(self._parameters.base_url),
            )
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise EndpointRefused(
                f"{self._parameters.url}: no connection can be made through the proxy of the environment "
                f"({one_line(str(error))}); correct or unset HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY"
            ) from error


@asynccontextmanager
async def open_http(parameters: EndpointParameters, key: Key, dialects: dict[str, Dialect]) -> AsyncGenerator[HttpEndpoint, None]:
    connections = Connections(parameters, key)
    try:
        yield HttpEndpoint(connections, parameters, key, dialects)
    finally:
        await connections.close()


@dataclass(frozen=True)
class HttpEndpoint:
    """Asks once. Remembers in `dialects`, per model, what the server turned out to understand."""

    connections: Connections
    parameters: EndpointParameters
    key: Key
    dialects: dict[str, Dialect]
    unix_time: Callable[[], float] = time.time

    async def chat(self, request: ChatRequest) -> ChatAnswer:
        """Raises Hiccup when another attempt may help, else EndpointRefused."""
        dialect = self.dialects.get(request.model, Dialect())
        clock = asyncio.get_running_loop().time
        begun_at = clock()
        response = await self.send("POST", "chat/completions", dialect.body(request))
        if response.status_code == 200:
            return parse_answer(response.content, clock() - begun_at, self.key)
        fault = self.fault(response, request.model)
        if response.status_code in {400, 422} and not isinstance(fault, RequestTooLong):
            said, _ = complaint(json_or_none(response.content), self.key)
            if understood := dialect.after(request, said):
                self.dialects[request.model] = understood
                logger.warning("%s: %r refused a parameter (%s); asking without it", self.parameters.url, request.model, said)
                raise Hiccup("dialect", f"HTTP {response.status_code}: {said}", "check the parameters", server_is_well=True)
        raise fault

    def fault(self, response: WholeResponse, model: str) -> Exception:
        pause_s = retry_after_s(response.headers, self.unix_time())
        return fault_of(response.status_code, json_or_none(response.content), pause_s, Place(self.parameters.url, model, self.key))

    async def send(self, method: str, path: str, content: bytes | None = None, most_bytes: int = MOST_BYTES) -> WholeResponse:
        """Any complete response within the time allowed; raises Hiccup when there is none, EndpointRefused when nobody can be asked."""
        try:
            async with asyncio.timeout(self.parameters.answer_timeout_s):
                return await self.connections.request(method, path, content, most_bytes)
        except TimeoutError:
            fault = Hiccup(
                "time_out",
                f"no answer within {self.parameters.answer_timeout_s:g} s",
                "raise answer_timeout_s, or lower concurrency or max_tokens",
                may_have_cost=True,
            )
        except UnusableBody as error:
            fault = malformed(str(error))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            what = self.key.hide(str(error)) or "time-out"
            fault = Hiccup("no_connection", f"no connection ({what})", "is the server running, and is the address right?")
        except httpx.RequestError as error:
            fault = Hiccup(
                "broken_connection",
                f"the connection broke ({type(error).__name__})",
                _TROUBLE,
                may_have_cost=True,
            )
        raise fault


def json_or_none(content: bytes) -> Any:
    """What an error's body says, if it is JSON."""
    try:
        return parse_json(content)
    except UnusableBody:
        return None


_IN_WORDS = "\n\nAnswer with one JSON object that follows this JSON schema, and with nothing else:\n{schema}"
_MOST_TOKENS = 2**31 - 1  # that a server may say it has counted
_BROKEN_OFF = {"error", "abort", "insufficient_system_resource"}  # of OpenRouter, vLLM, DeepSeek: the server's trouble, no end of a reply
_TROUBLE = "the server has trouble: try again later, answered calls are kept"
_NOT_COMPATIBLE = "check that the address is that of an OpenAI-compatible endpoint; answered calls are kept"


@dataclass(frozen=True)
class Dialect:
    """Whether a schema goes as response_format or in words, the field that bounds the answer (newer OpenAI models renamed it), and
    whether a seed is sent (without it another answer comes, of the same distribution)."""

    json_schema: bool = True
    max_tokens_field: str = "max_tokens"
    seed: bool = True

    def body(self, request: ChatRequest) -> bytes:
        messages = list(request.messages)
        body: dict[str, Any] = {
            "model": request.model,
            "temperature": request.temperature,
            "top_p": request.top_p,
            self.max_tokens_field: request.max_tokens,
        }
        if request.seed is not None and self.seed:
            body["seed"] = request.seed
        if request.schema is not None and self.json_schema:
            form = {"name": "answer", "schema": request.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif request.schema is not None:
            schema = json.dumps(request.schema, ensure_ascii=False)
            messages[-1] = Message(messages[-1].role, messages[-1].content + _IN_WORDS.format(schema=schema))
        body["messages"] = [{"role": message.role, "content": message.content} for message in messages]
        return json.dumps(body, allow_nan=False).encode("ascii")

    def after(self, request: ChatRequest, said: str) -> Dialect | None:
        """The dialect to try when a 400 or 422 came with these words; None when they are about something else."""
        if "max_completion_tokens" in said and self.max_tokens_field == "max_tokens":
            return replace(self, max_tokens_field="max_completion_tokens")
        if ("response_format" in said or "json_schema" in said) and self.json_schema and request.schema is not None:
            return replace(self, json_schema=False)
        if re.search(r"(?<![\w-])seed(?![\w-])", said.replace(request.model, "")) and self.seed and request.seed is not None:
            return replace(self, seed=False)
        return None


def parse_answer(content: bytes, seconds: float, key: Key) -> ChatAnswer:
    """The answer in the body of a response with status 200, without the key and without halves of characters.

    An empty text is an answer too: the model has said nothing. Raises Hiccup for anything but a complete chat completion.
    """
    if not content.strip():
        raise Hiccup("empty", "an empty body", _NOT_COMPATIBLE, may_have_cost=True)
    try:
        body = parse_json(content)
        choice = body["choices"][0]
        message = choice["message"]
        text, thoughts = _in_parts(message.get("content"))
        refusal = message.get("refusal")
        reasoning = message.get("reasoning_content") or message.get("reasoning") or thoughts
        finish_reason = choice.get("finish_reason") or "unknown"
        usage = body.get("usage")
    except UnusableBody as error:
        raise malformed(str(error)) from None
    except (KeyError, IndexError, TypeError, AttributeError):
        said = complaint(body, key)[0] if isinstance(body, dict) and body.get("error") else ""
        if said:  # of routers, whose status was sent before the trouble came
            raise Hiccup("error_in_answer", f"an error in place of an answer: {said}", _TROUBLE, may_have_cost=True) from None
        raise malformed("no choice with a message in it") from None
    fields: tuple[tuple[str, Any, Any], ...] = (
        ("content", text, str | None),
        ("refusal", refusal, str | None),
        ("reasoning", reasoning, str | None),
        ("finish_reason", finish_reason, str),
        ("usage", usage, dict | None),
    )
    for name, value, kind in fields:
        if not isinstance(value, kind):
            raise malformed(f"{name} is of type {type(value).__name__}")
    if choice.get("error") or finish_reason in _BROKEN_OFF:
        raise Hiccup("broken_off", "an answer that the server broke off", _TROUBLE, may_have_cost=True)
    tokens_in, tokens_out, total = (_count(usage or {}, f"{which}_tokens") for which in ("prompt", "completion", "total"))
    tokens_out = max(tokens_out, total - tokens_in) if tokens_in else tokens_out  # some count thoughts in the total only
    if refusal and not text:
        text, finish_reason = refusal, "content_filter"
    text, reasoning, finish_reason = (whole_characters(key.hide_secret(said)) for said in (text or "", reasoning or "", finish_reason))
    return ChatAnswer(text, reasoning or None, finish_reason, tokens_in, tokens_out, seconds, cached=False)


def _in_parts(content: Any) -> tuple[Any, str | None]:
    """The text and the thoughts of a content that comes in parts, as from Mistral's models that think; any other content as it is."""
    if not isinstance(content, list):
        return content, None
    texts = [part["text"] for part in content if part["type"] != "thinking"]
    thoughts = [inner["text"] for part in content if part["type"] == "thinking" for inner in part["thinking"]]
    return "".join(texts), "".join(thoughts) or None


def _count(usage: Mapping[str, Any], name: str) -> int:
    """A number that money is computed from, and the budget: 0 where the server does not count. Raises Hiccup for any that is no count."""
    count = usage.get(name)
    if count is None:
        return 0
    if type(count) is not int or not 0 <= count <= _MOST_TOKENS:  # a bool is an int to isinstance
        raise malformed(f"{name} is no number of tokens")
    return count


def malformed(what: str) -> Hiccup:
    return Hiccup("malformed", f"a malformed answer ({what})", _NOT_COMPATIBLE, may_have_cost=True)
