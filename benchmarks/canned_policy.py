"""A policy that costs nothing, for measuring everything else: the same kind reply every time."""

from __future__ import annotations

from rlver.components.domain.protocols import Reply, Tokens
from rlver.components.domain.thinking import Said

_REPLY = Reply(
    Said(None, "That sounds hard. Tell me more about it.", well_formed=True), cut_off=False, reply_tokens=None, think_tokens=None
)


class CannedPolicy:
    name = "canned"

    def start(self) -> None:
        """Nothing was learned."""

    async def close(self) -> None:
        """Nothing was opened."""

    def session(self, dialogue_id: str, seed: int, language: str) -> CannedSession:
        return CannedSession()


class CannedSession:
    tokens = Tokens()

    async def reply(self, user: str) -> Reply:
        return _REPLY

    def close(self) -> None:
        """Nothing was kept."""
