"""What every sampler offers: token ids in, sampled token ids and their log-probabilities out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class SampleRequest:
    """The whole context of one dialogue and how its next turn is to be sampled.

    `dialogue_id` lets a sampler keep what it has already read of this dialogue; `seed` makes the turn reproducible.
    """

    dialogue_id: str
    context_ids: tuple[int, ...]
    seed: int
    max_tokens: int


@dataclass(frozen=True)
class Sample:
    """One sampled turn. `finished` is True when the end-of-turn token was sampled (it is then the last id)."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]  # of the sampled tokens under the sampling distribution, same length; NaN where the logits are not finite
    finished: bool


class NotFinite(RuntimeError):
    """The model's logits are infinite or no numbers: what it says is no reply, and nothing that follows from it is a score."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where}: the model's logits are not finite; its weights are broken, or its training diverged: take another copy")


class PolicySampler(Protocol):
    """A sampler whose policy may change between dialogues."""

    async def sample(self, request: SampleRequest) -> Sample: ...

    def forget(self, dialogue_id: str) -> None:
        """The dialogue is over; what was kept for it may go."""
        ...

    def start(self) -> None:
        """Take the policy as it is now; call before the first dialogue and after every change of the weights."""
        ...

    async def close(self) -> None:
        """No more dialogues in this event loop."""
        ...
