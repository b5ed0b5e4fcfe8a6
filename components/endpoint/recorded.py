"""An endpoint with a memory: what was answered once is read, never asked again.

A call in flight belongs to the endpoint, not to its caller: identical requests share it, and when the caller is gone the answer, which is
paid for, is still stored.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from components.endpoint.answers import Answers, digest_of
from components.endpoint.chat import ChatAnswer, ChatEndpoint, ChatRequest, NotRecorded
from components.endpoint.ledger import Ledger


class RecordedEndpoint:
    """Stored answers first; then `upstream`, or NotRecorded in a replay, which has none."""

    def __init__(self, answers: Answers, ledger: Ledger, upstream: ChatEndpoint | None) -> None:
        self.ledger = ledger
        self._answers = answers
        self._upstream = upstream
        self._in_flight: dict[str, asyncio.Task[ChatAnswer]] = {}

    async def chat(self, request: ChatRequest) -> ChatAnswer:
        """Raises EndpointError, or BadFile when the answer cannot be stored."""
        digest = digest_of(request)
        if stored := self._answers.get(digest):
            self.ledger.cached(request.model)
            return stored
        if self._upstream is None:
            raise NotRecorded(
                f"replay: {self._answers.name} holds no answer of {request.model!r} to this request ({digest[:12]}): the prompts or the "
                "parameters are not those of the recorded run, or it never got here; run without replay to ask the endpoint"
            )
        if task := self._in_flight.get(digest):
            answer = await asyncio.shield(task)
            self.ledger.cached(request.model)
            return replace(answer, cached=True)
        task = asyncio.create_task(self._ask(self._upstream, digest, request))
        self._in_flight[digest] = task
        task.add_done_callback(lambda done: self._landed(digest, done))
        return await asyncio.shield(task)

    async def finish(self) -> None:
        """Wait for what is in flight, which is paid for, and store it. Callers may be gone."""
        await asyncio.gather(*self._in_flight.values(), return_exceptions=True)

    async def close(self) -> None:
        """Give up what is still in flight."""
        tasks = list(self._in_flight.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, upstream: ChatEndpoint, digest: str, request: ChatRequest) -> ChatAnswer:
        answer = await upstream.chat(request)
        self._answers.put(digest, request, answer)
        return answer

    def _landed(self, digest: str, task: asyncio.Task[ChatAnswer]) -> None:
        del self._in_flight[digest]
        if not task.cancelled():
            task.exception()  # seen, so that asyncio does not complain when all callers are gone
