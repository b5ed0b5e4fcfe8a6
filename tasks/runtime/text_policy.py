"""A policy that gives text alone: cheats, canned replies, the person at the terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rlver.components.domain.protocols import PolicySession, Reply, Tokens
from rlver.components.domain.thinking import Said

Answers = Callable[[str], Said]  # what is said to the user's next message


def plain(text: str) -> Said:
    return Said(None, text, well_formed=True)


@dataclass(frozen=True)
class TextPolicy:
    """`begin` opens a dialogue, given its id, seed and language; what it returns answers the user's messages one after the other."""

    name: str
    begin: Callable[[str, int, str], Answers]

    def start(self) -> None:
        """It has no weights."""

    async def close(self) -> None:
        """It holds nothing open."""

    def session(self, dialogue_id: str, seed: int, language: str) -> PolicySession:
        return _TextSession(self.begin(dialogue_id, seed, language))


@dataclass(frozen=True)
class _TextSession:
    answer: Answers
    tokens = Tokens()

    async def reply(self, user: str) -> Reply:
        return Reply(self.answer(user), cut_off=False, reply_tokens=None, think_tokens=None)

    def close(self) -> None:
        """Nothing is kept."""
