"""Asking until the answer can be used, a bounded number of times; then the user is unavailable, and the dialogue unscorable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from components.endpoint.chat import ChatAnswer, ChatEndpoint, ChatRequest, EndpointRefused, EndpointUnavailable, Message, NotRecorded
from components.simulator.llm.answers import UnparsableAnswer
from components.simulator.protocol import SimulatorUnavailable

A = TypeVar("A")


async def ask(
    endpoint: ChatEndpoint, request: ChatRequest, read: Callable[[str], A], repair: Callable[[str], str], max_repairs: int, what: str
) -> A:
    """The answer as `read` gives it. `repair` words a reason for the model; `what` names the question in messages.

    Raises SimulatorUnavailable when the endpoint gives no answer, or none of 1 + `max_repairs` that can be used. BudgetExceeded
    passes: it is no fault of this dialogue and must stop the run.
    """
    asked, reason = request, ""
    for attempt in range(1 + max_repairs):
        if attempt:
            asked = _again(request, attempt, repair(reason))
        try:
            return read(_whole(await endpoint.chat(asked)))
        except UnparsableAnswer as error:
            reason = error.reason
        except (EndpointUnavailable, EndpointRefused, NotRecorded) as error:
            raise SimulatorUnavailable(f"{what}: {error}") from error
    raise SimulatorUnavailable(f"{what}: no usable answer in {1 + max_repairs} attempts; the last: {reason}")


def _whole(answer: ChatAnswer) -> str:
    if answer.finish_reason == "length":
        raise UnparsableAnswer("it was cut off because it was too long; be brief", answer.text)
    return answer.text


def _again(request: ChatRequest, attempt: int, words: str) -> ChatRequest:
    *before, last = request.messages
    return replace(request, messages=(*before, Message(last.role, f"{last.content}\n\n{words}")), attempt=attempt)
