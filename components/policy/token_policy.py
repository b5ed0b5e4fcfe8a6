"""A policy whose tokens are seen: what it samples is kept as it is, with masks, for training.

Masks hold by construction: a token is the policy's because it was sampled here, never because it was found again in rendered text.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rlver.components.domain.protocols import ContextFull, Reply, Tokens, turn_seed
from rlver.components.domain.thinking import CLOSE, Said, split_thought
from rlver.components.policy.sampler import NotFinite, PolicySampler, SampleRequest


class Chat(Protocol):
    """Conversation ↔ token ids; see rlver.components.policy.chat.ChatFormat."""

    @property
    def end_of_turn(self) -> int: ...
    def start(self, user: str, language: str) -> list[int]: ...
    def user_turn(self, user: str) -> list[int]: ...
    def decode(self, token_ids: tuple[int, ...]) -> str: ...
    def count(self, text: str) -> int: ...


@dataclass(frozen=True)
class Speaking:
    """How the policy speaks: the same values for training and evaluation."""

    policy: str  # name that goes into the transcript
    thinking: bool
    strip_thoughts: bool  # the policy's own earlier thoughts leave its context
    max_reply_tokens: int
    max_context_tokens: int


@dataclass(frozen=True)
class TokenPolicy:
    """Replies by sampling tokens in `chat`'s format."""

    sampler: PolicySampler
    chat: Chat
    speaking: Speaking

    @property
    def name(self) -> str:
        return self.speaking.policy

    def start(self) -> None:
        self.sampler.start()

    async def close(self) -> None:
        await self.sampler.close()

    def session(self, dialogue_id: str, seed: int, language: str) -> TokenSession:
        return TokenSession(self, dialogue_id, seed, language)


class TokenSession:
    """Grows the tokens of one dialogue, one speaker at a time."""

    def __init__(self, policy: TokenPolicy, dialogue_id: str, seed: int, language: str) -> None:
        self._policy = policy
        self._dialogue_id = dialogue_id
        self._seed = seed
        self._language = language
        self._turns = 0
        self._prompt_ids: tuple[int, ...] = ()
        self._ids: list[int] = []
        self._is_policy: list[bool] = []
        self._turn: list[int] = []
        self._logprob: list[float] = []
        self._stays: list[bool] = []

    async def reply(self, user: str) -> Reply:
        chat, speaking = self._policy.chat, self._policy.speaking
        if self._turns == 0:
            self._prompt_ids = tuple(chat.start(user, self._language))
        else:
            self._add(chat.user_turn(user))
        context = self._context()
        if speaking.max_context_tokens - len(context) < speaking.max_reply_tokens:
            raise ContextFull(
                f"turn {self._turns + 1}: the context holds {len(context)} of {speaking.max_context_tokens} tokens, and a reply may take "
                f"{speaking.max_reply_tokens}: raise policy.max_context_tokens or lower policy.max_reply_tokens"
            )
        seed = turn_seed(self._dialogue_id, self._seed, self._turns)
        sample = await self._policy.sampler.sample(SampleRequest(self._dialogue_id, context, seed, speaking.max_reply_tokens))
        if not all(map(math.isfinite, sample.logprobs)):
            raise NotFinite(f"{self._dialogue_id}: turn {self._turns + 1}")
        said = split_thought(chat.decode(sample.token_ids), speaking.thinking)
        self._add(sample.token_ids, sample.logprobs, thought_tokens(sample.token_ids, said, chat) if speaking.strip_thoughts else 0)
        if not sample.finished:
            self._add([chat.end_of_turn])
        self._turns += 1
        return Reply(
            said=said,
            cut_off=not sample.finished,
            reply_tokens=chat.count(said.reply),
            think_tokens=chat.count(said.think) if said.think else 0,
        )

    @property
    def tokens(self) -> Tokens:
        return Tokens(
            self._prompt_ids, tuple(self._ids), tuple(self._is_policy), tuple(self._turn), tuple(self._logprob), tuple(self._stays)
        )

    def close(self) -> None:
        self._policy.sampler.forget(self._dialogue_id)

    def _add(self, ids: Sequence[int], logprobs: Sequence[float] | None = None, forgotten: int = 0) -> None:
        """`logprobs` for the policy's tokens, of which the first `forgotten` leave the context after their turn."""
        self._ids += ids
        self._is_policy += [logprobs is not None] * len(ids)
        self._turn += [self._turns] * len(ids)
        self._logprob += logprobs if logprobs is not None else [0.0] * len(ids)
        self._stays += [index >= forgotten for index in range(len(ids))]

    def _context(self) -> tuple[int, ...]:
        return (*self._prompt_ids, *(token for token, stays in zip(self._ids, self._stays, strict=True) if stays))


def thought_tokens(token_ids: tuple[int, ...], said: Said, chat: Chat) -> int:
    """How many tokens at the start of a turn the user never saw: the thought with its closing tag, or all but the end of a turn
    without a reply. A token that closes the thought and begins the reply counts as thought."""
    spoken = len(token_ids) - token_ids.count(chat.end_of_turn)
    return bisect_left(range(spoken), True, key=lambda count: CLOSE in chat.decode(token_ids[:count])) if said.reply else spoken
