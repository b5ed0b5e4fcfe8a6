"""Answers that were paid for, by the digest of what was asked: never paid for twice, and the record that a replay reads."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from components.endpoint.chat import ChatAnswer, ChatRequest
from components.endpoint.database import Database
from components.files import BadFile
from components.printable import whole_characters


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
        if row is None:
            return None
        try:
            return _stored(json.loads(row[0]))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise BadFile(f"{self.name}: the answer {digest[:12]} is damaged; take the file from a backup, or name another") from error

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
