"""The addresses of the chat server. Every error has OpenAI's form, whoever finds it."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from rlver.tasks.runtime.chat_server.completion_request import Refused, read_request, unknown_model
from rlver.tasks.runtime.chat_server.replies import PendingReply, Piece, ReplyQueue
from rlver.tasks.runtime.guard import CLOSES, NotLetIn, RequestGuard, same

MOST_BODY = 2**20  # bytes
_HEADERS = {"x-content-type-options": "nosniff", "cross-origin-resource-policy": "same-origin", "cache-control": "no-store"}


class ChatServer:
    """One model under one name."""

    def __init__(self, model: str, replies: ReplyQueue, since_s: int) -> None:
        self._model, self._replies, self._since_s = model, replies, since_s

    def app(self) -> Starlette:
        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            await self._replies.begin()
            try:
                yield
            finally:
                await self._replies.end()

        return Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/v1/models/{name:path}", self._one_model),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
            ],
            lifespan=lifespan,
            exception_handlers={Refused: _refused, HTTPException: _http, Exception: _failed},
        )

    @property
    def _card(self) -> dict[str, Any]:
        return {"id": self._model, "object": "model", "created": self._since_s, "owned_by": "rlver"}

    async def _models(self, _: Request) -> Response:
        return _json({"object": "list", "data": [self._card]})

    async def _one_model(self, request: Request) -> Response:
        if (name := str(request.path_params["name"])) != self._model:
            raise unknown_model(name, self._model)
        return _json(self._card)

    async def _chat(self, request: Request) -> Response:
        asked = read_request(await request.body())
        if asked.model != self._model:
            raise unknown_model(asked.model, self._model)
        pending = self._replies.ask(asked)
        told = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(datetime.now(UTC).timestamp()), "model": self._model}
        if asked.stream:
            return StreamingResponse(_events(pending, told), media_type="text/event-stream")
        pieces = await _unless_gone(request, pending)
        message = {"role": "assistant", "content": "".join(piece.text for piece in pieces), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": pieces[-1].finish}
        usage = _usage(pending, pieces[-1])
        return _json({**told, "object": "chat.completion", "choices": [choice], "usage": usage})


async def _unless_gone(request: Request, pending: PendingReply) -> list[Piece]:
    """All pieces of a reply; when the client hangs up before, the model turns to the next one. Raises Refused."""

    async def collect() -> list[Piece]:
        return [piece async for piece in pending]

    async def hangs_up() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    collecting, leaving = asyncio.create_task(collect()), asyncio.create_task(hangs_up())
    try:
        await asyncio.wait((collecting, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not collecting.done():
            raise Refused(408, "The client left.")  # nobody reads this
        return collecting.result()
    finally:
        pending.leave()
        collecting.cancel()
        leaving.cancel()


async def _events(pending: PendingReply, told: Mapping[str, Any]) -> AsyncIterator[str]:
    """The same reply as server-sent events. An error after the first of them is an event too, and no [DONE] follows it."""

    def event(delta: Mapping[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if pending.asked.include_usage else {}
        return _event({**told, "object": "chat.completion.chunk", "choices": [choice], **usage})

    try:
        yield event({"role": "assistant", "content": ""})
        async for piece in pending:
            if piece.text:
                yield event({"content": piece.text})
            if piece.finish is not None:
                yield event({}, piece.finish)
                if pending.asked.include_usage:
                    yield _event({**told, "object": "chat.completion.chunk", "choices": [], "usage": _usage(pending, piece)})
        yield "data: [DONE]\n\n"
    except Refused as refused:
        yield _event(refused.body)
    finally:
        pending.leave()


def _usage(pending: PendingReply, last: Piece) -> dict[str, int]:
    """Tokens of the prompt as the template renders it, and all that were sampled, the end of the turn included."""
    prompt = len(pending.prompt_ids)
    return {"prompt_tokens": prompt, "completion_tokens": last.tokens, "total_tokens": prompt + last.tokens}


def _json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(content, allow_nan=False), status, headers, "application/json")


def _event(content: Any) -> str:
    return f"data: {json.dumps(content, allow_nan=False)}\n\n"


def error(refused: Refused, closes: bool = False) -> Response:
    """`closes`: the body was not read, and is not waited for."""
    headers = {} if refused.retry_after_s is None else {"retry-after": str(refused.retry_after_s)}
    if refused.status == 401:
        headers["www-authenticate"] = "Bearer"
    if closes:
        headers |= CLOSES
    return _json(refused.body, refused.status, headers)


async def _refused(_: Request, refused: Exception) -> Response:
    assert isinstance(refused, Refused)
    return error(refused)


async def _http(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    if fault.status_code == 404:
        return error(Refused(404, "There is no such address here: GET /v1/models, POST /v1/chat/completions.", code="unknown_url"))
    return error(Refused(fault.status_code, f"{request.method} is not allowed here.", code="method_not_allowed"))


async def _failed(_: Request, fault: Exception) -> Response:
    return error(Refused(500, "The server failed; its terminal says why.", code="server_failed"))


def chat_guard(app: ASGIApp, hosts: frozenset[str], key: str | None) -> RequestGuard:
    """In front of the server. `key`: which a client must send as a bearer token; None where anybody may ask."""

    def check_key(_: Scope, headers: Headers) -> tuple[()]:
        scheme, _space, given = headers.get("authorization", "").partition(" ")
        if key is not None and (scheme.lower() != "bearer" or not same(given.strip(), key)):
            raise NotLetIn(401, "The key is missing or wrong: send it as Authorization: Bearer KEY.", "key")
        return ()

    return RequestGuard(app, hosts, MOST_BODY, _HEADERS, check_key, _not_let_in)


def _not_let_in(refusal: NotLetIn) -> Response:
    codes = {"foreign": "not_allowed", "key": "invalid_api_key", "slow": None, "long": "request_too_large"}
    return error(Refused(refusal.status, refusal.message, code=codes[refusal.why]), closes=True)
