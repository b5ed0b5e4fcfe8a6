"""A policy that costs nothing, for measuring everything else: the same kind reply every time, one token a letter."""

from __future__ import annotations

from collections.abc import Sequence

from components.policy.sampler import Sample, SampleRequest
from components.policy.token_policy import Speaking

SPEAKING = Speaking(policy="canned", thinking=False, strip_thoughts=False, max_reply_tokens=100, max_context_tokens=100_000)
_REPLY = "That sounds hard. Tell me more about it."


_END = 0


class CannedSampler:
    def start(self) -> None:
        """Nothing was learned."""

    async def sample(self, request: SampleRequest) -> Sample:
        ids = (*map(ord, _REPLY), _END)
        return Sample(ids, (0.0,) * len(ids), finished=True)

    async def close(self) -> None:
        """Nothing was opened."""

    def forget(self, dialogue_id: str) -> None:
        """Nothing was kept."""


class LetterChat:
    end_of_turn = _END

    def start(self, user: str, language: str) -> list[int]:
        return [1, *map(ord, user), 2]

    def user_turn(self, user: str) -> list[int]:
        return [10, 1, *map(ord, user), 2]

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(token) for token in token_ids if token != self.end_of_turn)

    def count(self, text: str) -> int:
        return len(text)
