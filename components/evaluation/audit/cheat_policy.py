"""A cheat behind the protocol of policies, so that it talks with any simulator."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from components.evaluation.audit.cheats import Cheat, Heard
from components.policy.protocol import Reply, Tokens
from components.policy.thinking import Said


@dataclass(frozen=True)
class CheatPolicy:
    """Gives text alone. The same dialogue id and seed draw the same words."""

    name: str
    cheat: Cheat

    def start(self) -> None:
        """It has no weights."""

    async def close(self) -> None:
        """It holds nothing open."""

    def session(self, dialogue_id: str, seed: int, language: str) -> CheatSession:
        """Raises ValueError for a user whose language it does not speak."""
        if language != "en":
            raise ValueError(f"the cheats speak English only, and a user speaks {language!r}; probe with English personas")
        return CheatSession(self.cheat, Random(f"{seed}|{dialogue_id}"))


@dataclass
class CheatSession:
    """One dialogue."""

    cheat: Cheat
    random: Random
    tokens: Tokens = field(default_factory=Tokens)
    _messages: list[str] = field(default_factory=list)
    _replies: list[str] = field(default_factory=list)

    async def reply(self, user: str) -> Reply:
        self._messages.append(user)
        said = self.cheat(Heard(self._messages, self._replies), self.random)
        self._replies.append(said)
        return Reply(Said(None, said, well_formed=True), cut_off=False, reply_tokens=None, think_tokens=None)

    def close(self) -> None:
        """Nothing is kept."""
