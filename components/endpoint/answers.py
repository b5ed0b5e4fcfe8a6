"""Answers that were paid for, by the digest of what was asked: never paid for twice, and the record that a replay reads."""

from __future__ import annotations

import hashlib
import json

from components.endpoint.chat import ChatAnswer, ChatRequest
from components.endpoint.database import Database


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
        return None if row is None else ChatAnswer(**json.loads(row[0]), cached=True)

    def put(self, digest: str, request: ChatRequest, answer: ChatAnswer) -> None:
        """Keeps the answer that is there, if another process was first."""
        kept = {
            "text": answer.text,
            "reasoning": answer.reasoning,
            "finish_reason": answer.finish_reason,
            "tokens_in": answer.tokens_in,
            "tokens_out": answer.tokens_out,
            "seconds": answer.seconds,
        }
        row = (digest, request.canonical_json(), json.dumps(kept))
        with self._database.writing() as connection:
            connection.execute("INSERT INTO answers VALUES (?, ?, ?) ON CONFLICT DO NOTHING", row)
