"""Answers that were paid for, by the digest of what was asked: never asked or paid for twice, and the record that a replay reads."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import asdict, replace
from typing import Any

from rlver.components.domain.files import BadFile
from rlver.components.domain.printable import whole_characters
from rlver.components.endpoint.chat import ChatAnswer, ChatEndpoint, ChatRequest, NotRecorded
from rlver.components.endpoint.ledger import Database, Ledger


def digest_of(request: ChatRequest) -> str:
    """64 hex digits, the same for equal requests whatever the endpoint's address."""
    return hashlib.sha256(request.canonical_json().encode("ascii")).hexdigest()


class Answers:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.name = database.name

    def get(self, digest: str) -> ChatAnswer | None:
        with self._database.reading() as connection:
            row = connection.execute("SELECT answer FROM answers WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else self._read(digest, row[0])

    def put(self, digest: str, request: ChatRequest, answer: ChatAnswer) -> ChatAnswer:
        """The answer that is kept: `answer`, or the one that is there, if another process was first; a replay gives that one."""
        kept = asdict(answer)
        del kept["cached"]
        row = (digest, request.canonical_json(), json.dumps(kept))
        with self._database.writing() as connection:
            if connection.execute("INSERT INTO answers VALUES (?, ?, ?) ON CONFLICT DO NOTHING", row).rowcount:
                return answer
            (first,) = connection.execute("SELECT answer FROM answers WHERE digest = ?", (digest,)).fetchone()
        return self._read(digest, first)

    def _read(self, digest: str, answer: str) -> ChatAnswer:
        try:
            return _stored(json.loads(answer))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise BadFile(f"{self.name}: the answer {digest[:12]} is damaged; take the file from a backup, or name another") from error


def _stored(kept: Any) -> ChatAnswer:
    """What `put` kept. Older files may hold halves of characters, at which every transcript would break again in every run."""
    return ChatAnswer(
        text=whole_characters(kept["text"]),
        reasoning=None if kept["reasoning"] is None else whole_characters(kept["reasoning"]),
        finish_reason=whole_characters(kept["finish_reason"]),
        tokens_in=kept["tokens_in"],
        tokens_out=kept["tokens_out"],
        seconds=kept["seconds"],
        cached=True,
    )


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
        return self._answers.put(digest, request, await upstream.chat(request))

    def _landed(self, digest: str, task: asyncio.Task[ChatAnswer]) -> None:
        del self._in_flight[digest]
        if not task.cancelled():
            task.exception()  # seen, so that asyncio does not complain when all callers are gone
