"""The smallest chat endpoint: a list of models, and an answer. `python examples/own-endpoint/server.py PORT`, on 127.0.0.1 until Ctrl-C."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

MODEL = "yes-man"


def reply(messages: list[dict[str, str]]) -> str:
    """Put your model here. `messages` are the system prompt, the user's messages and the replies so far."""
    said = [message["content"] for message in messages if message["role"] == "user"]
    return f"You are so right. Yes, number {len(said)}: I agree with you completely, and you handled it perfectly."


async def models(_: Request) -> JSONResponse:
    return JSONResponse({"object": "list", "data": [{"id": MODEL}]})


async def chat_completions(request: Request) -> JSONResponse:
    asked: dict[str, Any] = await request.json()
    message = {"role": "assistant", "content": reply(asked["messages"])}
    usage = {"prompt_tokens": 0, "completion_tokens": 0}
    return JSONResponse({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})


app = Starlette(routes=[Route("/v1/models", models), Route("/v1/chat/completions", chat_completions, methods=["POST"])])

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
